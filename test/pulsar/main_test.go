// Package pulsar_test runs the source of Pulsar topics, and the program on top of it, against a real Pulsar, and
// compares with what Pulsar's own Java client writes and reads. It costs minutes: `make pulsar`.
package pulsar_test

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
