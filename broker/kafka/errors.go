package kafka

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/ledgerlake/ledgerlake/broker"
)

// RecreatedError says that a topic is not the one that this Source began with: it was deleted and made again,
// so that its offsets stand for other records. Source.Rebind accepts the new one.
type RecreatedError struct {
	Topic   string
	Was, Is [16]byte
}

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("topic %s was deleted and made again: its id was %s and is %s", e.Topic, hex.EncodeToString(e.Was[:]), hex.EncodeToString(e.Is[:]))
}

// transientError may go away when asked again with fresh metadata.
type transientError struct {
	err   error
	grace time.Duration // try for so long at most; 0 means Config.RetryTimeout
}

func (e *transientError) Error() string { return e.err.Error() }
func (e *transientError) Unwrap() error { return e.err }

func transient(err error) error { return &transientError{err: err} }

// fromCode turns a Kafka error code into an error of the contract where there is one.
func fromCode(code int16) error {
	err := kerr.ErrorForCode(code)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		// The leader that we asked may be behind; metadata has the last word.
		return transient(fmt.Errorf("%w: %w", broker.ErrUnknownTopic, err))
	case errors.Is(err, kerr.CorruptMessage):
		return fmt.Errorf("%w: %w", broker.ErrCorruptBatch, err)
	case errors.Is(err, kerr.InvalidTopicException):
		return fmt.Errorf("%w: %w", broker.ErrInvalidTopic, err)
	case errors.Is(err, kerr.KafkaStorageError):
		return transient(fmt.Errorf("%w: %w", broker.ErrStorage, err))
	case kerr.IsRetriable(err), errors.Is(err, kerr.FencedLeaderEpoch), errors.Is(err, kerr.UnknownLeaderEpoch):
		return transient(err)
	}
	return err
}

// fromRequest is for the error of a request as a whole: no connection, cut, timed out. All of those may pass,
// unless it was the caller who gave up or the broker refused us.
func fromRequest(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var ke *kerr.Error
	if errors.As(err, &ke) && !ke.Retriable {
		return err
	}
	return transient(err)
}
