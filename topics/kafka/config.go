package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"evalstream"
)

// Config says how to reach a cluster.
type Config struct {
	Brokers  []string // host:port, at least one
	ClientID string   // what brokers log; "" is evalstream
	TLS      TLS
	SASL     SASL
	// Timeout bounds one request, on top of what it waits for at the broker; 0 is 10 s.
	Timeout time.Duration
	// Patience is how long a broker, a leader or a coordinator may be away before that
	// is an error; 0 is 2 min.
	Patience time.Duration
	// Transaction is how long a transaction may be open before the broker aborts it, and so
	// how long a dead owner without successor holds back readers; 0 is 10 s. The broker's
	// transaction.max.timeout.ms bounds it.
	Transaction time.Duration
	// Log is told what is waited for, once after 5 s, once a minute, and when that is over;
	// and what happens to partitions. nil: nothing is told.
	Log *slog.Logger
}

// TLS says how connections are encrypted. The zero value is not at all.
type TLS struct {
	On   bool
	CA   string // PEM file of the authorities to trust; "" is the system's
	Cert string // PEM file of the client's certificate, and
	Key  string // of its key; both or none
}

// SASL says who the client is. Without a mechanism it is nobody.
type SASL struct {
	Mechanism string // plain, scram-sha-256 or scram-sha-512
	Username  string
	Password  Secret
}

// Secret is text that is never printed.
type Secret string

// String hides the secret.
func (Secret) String() string { return "[hidden]" }

// GoString hides the secret.
func (Secret) GoString() string { return "[hidden]" }

// MarshalText hides the secret, from JSON and logs too.
func (Secret) MarshalText() ([]byte, error) { return []byte("[hidden]"), nil }

// The environment that FromEnv reads.
const (
	EnvBrokers      = "EVALSTREAM_BROKERS" // host:port,host:port
	EnvTLS          = "EVALSTREAM_KAFKA_TLS"
	EnvCA           = "EVALSTREAM_KAFKA_TLS_CA"
	EnvCert         = "EVALSTREAM_KAFKA_TLS_CERT"
	EnvKey          = "EVALSTREAM_KAFKA_TLS_KEY"
	EnvMechanism    = "EVALSTREAM_KAFKA_SASL_MECHANISM"
	EnvUsername     = "EVALSTREAM_KAFKA_SASL_USERNAME"
	EnvPassword     = "EVALSTREAM_KAFKA_SASL_PASSWORD"
	EnvPasswordFile = "EVALSTREAM_KAFKA_SASL_PASSWORD_FILE"
	EnvPatience     = "EVALSTREAM_KAFKA_PATIENCE"    // such as 2m
	EnvTransaction  = "EVALSTREAM_KAFKA_TRANSACTION" // such as 10s
)

// FromEnv is a Config for brokers (EVALSTREAM_BROKERS if there are none), with the TLS
// and SASL settings and the durations of the environment. TLS is on if EVALSTREAM_KAFKA_TLS
// is true or a file of it is named. A password file's last line end is not part of the password.
func FromEnv(brokers []string, getenv func(string) string) (Config, error) {
	c := Config{
		Brokers: brokers,
		TLS:     TLS{CA: getenv(EnvCA), Cert: getenv(EnvCert), Key: getenv(EnvKey)},
		SASL: SASL{
			Mechanism: strings.ToLower(getenv(EnvMechanism)),
			Username:  getenv(EnvUsername), Password: Secret(getenv(EnvPassword)),
		},
	}
	if len(c.Brokers) == 0 {
		for b := range strings.SplitSeq(getenv(EnvBrokers), ",") {
			if b = strings.TrimSpace(b); b != "" {
				c.Brokers = append(c.Brokers, b)
			}
		}
	}
	switch v := getenv(EnvTLS); v {
	case "true", "1":
		c.TLS.On = true
	case "", "false", "0":
		c.TLS.On = c.TLS.CA != "" || c.TLS.Cert != ""
	default:
		return c, evalstream.Usagef("%s: want true or false, got %q", EnvTLS, v)
	}
	var err error
	if c.Patience, err = duration(getenv, EnvPatience, "2m"); err != nil {
		return c, err
	}
	if c.Transaction, err = duration(getenv, EnvTransaction, "10s"); err != nil {
		return c, err
	}
	if file := getenv(EnvPasswordFile); file != "" {
		if c.SASL.Password != "" {
			return c, evalstream.Usagef("%s and %s: want one of them, got both", EnvPassword, EnvPasswordFile)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return c, evalstream.Usagef("%s: %w", EnvPasswordFile, err)
		}
		c.SASL.Password = Secret(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"))
	}
	return c, c.check()
}

// duration is 0 where the variable is not set.
func duration(getenv func(string) string, name, example string) (time.Duration, error) {
	text := getenv(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return 0, evalstream.Usagef("%s: want a duration of at least 1s, such as %s, got %q", name, example, text)
	}
	return d, nil
}

func (c *Config) check() error {
	if len(c.Brokers) == 0 {
		return evalstream.Usagef("brokers: want host:port, got none; set brokers: in the pipeline or %s", EnvBrokers)
	}
	for _, b := range c.Brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" {
			return evalstream.Usagef("brokers: want host:port, got %q", b)
		}
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return evalstream.Usagef("%s and %s: want both, got one", EnvCert, EnvKey)
	}
	switch c.SASL.Mechanism {
	case "":
		if c.SASL.Username != "" {
			return evalstream.Usagef("%s: want plain, scram-sha-256 or scram-sha-512, got none", EnvMechanism)
		}
	case "plain", "scram-sha-256", "scram-sha-512":
		if c.SASL.Username == "" || c.SASL.Password == "" {
			return evalstream.Usagef("%s: want a user name and a password, got none; set %s and %s", c.SASL.Mechanism, EnvUsername, EnvPasswordFile)
		}
	default:
		return evalstream.Usagef("%s: want plain, scram-sha-256 or scram-sha-512, got %q", EnvMechanism, c.SASL.Mechanism)
	}
	return nil
}

func (c *Config) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return 10 * time.Second
}

func (c *Config) patience() time.Duration {
	if c.Patience > 0 {
		return c.Patience
	}
	return 2 * time.Minute
}

func (c *Config) transaction() time.Duration {
	if c.Transaction > 0 {
		return c.Transaction
	}
	return 10 * time.Second
}

func (c *Config) clientID() string {
	if c.ClientID != "" {
		return c.ClientID
	}
	return "evalstream"
}

func (c *Config) log() *slog.Logger {
	if c.Log != nil {
		return c.Log
	}
	return slog.New(slog.DiscardHandler)
}

// tls is nil if connections are in the clear.
func (c *Config) tls() (*tls.Config, error) {
	if !c.TLS.On {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS.CA != "" {
		pem, err := os.ReadFile(c.TLS.CA)
		if err != nil {
			return nil, evalstream.Usagef("%s: %w", EnvCA, err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, evalstream.Usagef("%s: %s: want certificates in PEM, got none", EnvCA, c.TLS.CA)
		}
	}
	if c.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
		if err != nil {
			return nil, evalstream.Usagef("%s: %w", EnvCert, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

func (c *Config) sasl() (sasl.Mechanism, error) {
	user, password := c.SASL.Username, string(c.SASL.Password)
	switch c.SASL.Mechanism {
	case "":
		return nil, nil
	case "plain":
		return plain.Mechanism{Username: user, Password: password}, nil
	case "scram-sha-256":
		return named(scram.Mechanism(scram.SHA256, user, password))
	case "scram-sha-512":
		return named(scram.Mechanism(scram.SHA512, user, password))
	}
	return nil, errors.New("BUG: mechanism was not checked")
}

func named(m sasl.Mechanism, err error) (sasl.Mechanism, error) {
	if err != nil {
		return nil, fmt.Errorf("user name or password: %w", err)
	}
	return m, nil
}
