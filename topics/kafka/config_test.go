package kafka

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"evalstream"
)

func TestConfigFaults(t *testing.T) {
	f := func(brokers string, vars map[string]string, want string) {
		t.Helper()
		var bs []string
		if brokers != "" {
			bs = strings.Split(brokers, ",")
		}
		_, err := FromEnv(bs, func(k string) string { return vars[k] })
		if err == nil || err.Error() != want || evalstream.ExitCode(err) != evalstream.ExitUsage {
			t.Errorf("want %q and exit 2, got %v", want, err)
		}
	}
	f("", nil, "brokers: want host:port, got none; set brokers: in the pipeline or EVALSTREAM_BROKERS")
	f("localhost", nil, `brokers: want host:port, got "localhost"`)
	f("a:1,:9092", nil, `brokers: want host:port, got ":9092"`)
	f("a:1", map[string]string{EnvTLS: "yes"}, `EVALSTREAM_KAFKA_TLS: want true or false, got "yes"`)
	f("a:1", map[string]string{EnvPatience: "10ms"}, `EVALSTREAM_KAFKA_PATIENCE: want a duration of at least 1s, such as 2m, got "10ms"`)
	f("a:1", map[string]string{EnvCert: "x.pem"}, "EVALSTREAM_KAFKA_TLS_CERT and EVALSTREAM_KAFKA_TLS_KEY: want both, got one")
	f("a:1", map[string]string{EnvUsername: "u"}, "EVALSTREAM_KAFKA_SASL_MECHANISM: want plain, scram-sha-256 or scram-sha-512, got none")
	f("a:1", map[string]string{EnvMechanism: "gssapi"}, `EVALSTREAM_KAFKA_SASL_MECHANISM: want plain, scram-sha-256 or scram-sha-512, got "gssapi"`)
	f("a:1", map[string]string{EnvMechanism: "PLAIN", EnvUsername: "u"},
		"plain: want a user name and a password, got none; set EVALSTREAM_KAFKA_SASL_USERNAME and EVALSTREAM_KAFKA_SASL_PASSWORD_FILE")
	f("a:1", map[string]string{EnvPassword: "a", EnvPasswordFile: "b"},
		"EVALSTREAM_KAFKA_SASL_PASSWORD and EVALSTREAM_KAFKA_SASL_PASSWORD_FILE: want one of them, got both")
	f("a:1", map[string]string{EnvPatience: "soon"}, `EVALSTREAM_KAFKA_PATIENCE: want a duration of at least 1s, such as 2m, got "soon"`)
	f("a:1", map[string]string{EnvPatience: "-1s"}, `EVALSTREAM_KAFKA_PATIENCE: want a duration of at least 1s, such as 2m, got "-1s"`)
	f("a:1", map[string]string{EnvTransaction: "900ms"}, `EVALSTREAM_KAFKA_TRANSACTION: want a duration of at least 1s, such as 10s, got "900ms"`)
	f("a:1", map[string]string{EnvTransaction: "ten"}, `EVALSTREAM_KAFKA_TRANSACTION: want a duration of at least 1s, such as 10s, got "ten"`)
	f("a:1", map[string]string{EnvPasswordFile: "/no/such/file"}, "EVALSTREAM_KAFKA_SASL_PASSWORD_FILE: open /no/such/file: no such file or directory")
}

func TestSecretIsHidden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hunter2 \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{EnvBrokers: "a:1, b:2,", EnvMechanism: "Scram-SHA-512", EnvUsername: "u", EnvPasswordFile: file, EnvCA: "ca.pem", EnvPatience: "30s", EnvTransaction: "1m"}
	c, err := FromEnv(nil, func(k string) string { return vars[k] })
	if err != nil {
		t.Fatal(err)
	}
	if string(c.SASL.Password) != "hunter2 " || len(c.Brokers) != 2 || !c.TLS.On || c.Patience != 30*time.Second || c.Transaction != time.Minute {
		t.Errorf("password of %d bytes, brokers %v, TLS %v, patience %v, transaction %v", len(c.SASL.Password), c.Brokers, c.TLS.On, c.Patience, c.Transaction)
	}
	j, err := json.Marshal(c.SASL)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%s %q", c.SASL.Password, c.SASL.Password), string(j)} {
		if strings.Contains(said, "hunter2") {
			t.Errorf("the password is in %s", said)
		}
	}
}
