package e2e

import (
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
