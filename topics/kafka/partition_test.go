package kafka

import (
	"bufio"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestPartitionIsJavas(t *testing.T) {
	f, err := os.Open("testdata/murmur2.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		lines++
		parts := strings.Split(s.Text(), " ")
		key, err := hex.DecodeString(parts[0])
		if err != nil || len(parts) != 4 {
			t.Fatalf("bad line %q", s.Text())
		}
		if got := strconv.Itoa(int(int32(murmur2(key)))); got != parts[1] {
			t.Errorf("murmur2(%x): got %s, want %s", key, got, parts[1])
		}
		for i, n := range []int32{6, 1000} {
			if got := strconv.Itoa(int(Partition(key, n))); got != parts[2+i] {
				t.Errorf("partition of %x among %d: got %s, want %s", key, n, got, parts[2+i])
			}
		}
	}
	if lines < 60 {
		t.Errorf("%d vectors, want more", lines)
	}
}
