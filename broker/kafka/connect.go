package kafka

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
)

// connectError says at which brokers something was wrong, and what to do where that is likely.
func connectError(at []string, err error) error {
	remedy := ""
	_, mute := errors.AsType[*kgo.ErrFirstReadEOF](err)
	mute = mute && strings.HasSuffix(err.Error(), "missing?") // and not TLS that the broker does not speak
	switch {
	case mute: // that is all a Kafka says to who comes by another protocol
		remedy = "; a broker with users wants --sasl-user and --sasl-password, one with TLS --tls or --tls-ca"
	case errors.Is(err, syscall.ECONNREFUSED):
		remedy = "; nothing listens there: is the address right, and `ledgerlake serve` or the Kafka running?"
	}
	return fmt.Errorf("connect to kafka at %v: %w%s", at, err, remedy)
}
