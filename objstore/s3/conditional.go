package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// ErrNoConditionalPut is returned when the store ignores or refuses "If-None-Match: *".
var ErrNoConditionalPut = errors.New("the store does not honour conditional PUT (If-None-Match), " +
	"so versions of a table are not safe on it; use a store that does, a lock table (--log-store dynamodb), or a folder")

// conflictTries bounds the repetitions of a PUT that met another one of the same key in flight.
const conflictTries = 10

// PutIfAbsent publishes data unless key exists.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if _, err := s.key(key); err != nil {
		return err
	}
	if err := s.Probe(ctx); err != nil {
		return err
	}
	return s.putIfAbsent(ctx, key, data)
}

func (s *Store) putIfAbsent(ctx context.Context, key string, data []byte) error {
	var err error
	for try := range conflictTries {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &s.cfg.Bucket, Key: aws.String(s.root() + key),
			Body: bytes.NewReader(data), IfNoneMatch: aws.String("*"),
		}, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
		if err == nil {
			return nil
		}
		switch status(err) {
		case http.StatusPreconditionFailed:
			return fmt.Errorf("put %s: %w", key, objstore.ErrExists)
		case http.StatusConflict: // nothing was written; the other PUT may fail too, so ask again
			if err := pause(ctx, time.Duration(1+try)*10*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		return writeError("put", key, err)
	}
	return fmt.Errorf("put %s: another PUT of it is in flight for too long: %w", key, err)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d/2 + rand.N(d)):
		return nil
	}
}

// Probe makes sure, once, that the store honours conditional PUT: it writes a hidden object twice and removes
// it. PutIfAbsent calls it; a program may do so earlier to fail early.
func (s *Store) Probe(ctx context.Context) error {
	s.probeMu.Lock()
	defer s.probeMu.Unlock()
	if s.probed {
		return nil
	}
	key := probePrefix + uuid.NewString()
	err := s.putIfAbsent(ctx, key, []byte("probe"))
	if err == nil || errors.Is(err, objstore.ErrUnknownOutcome) {
		defer func() { _ = s.Delete(context.WithoutCancel(ctx), key) }() // hidden, and harmless if it stays
	}
	if status(err) == http.StatusNotImplemented {
		return fmt.Errorf("probe %s: %w", s.URL(), ErrNoConditionalPut)
	}
	if err != nil {
		return fmt.Errorf("probe %s: %w", s.URL(), plain(err))
	}
	err = s.putIfAbsent(ctx, key, []byte("probe again"))
	if err == nil {
		return fmt.Errorf("probe %s: %w", s.URL(), ErrNoConditionalPut)
	}
	if !errors.Is(err, objstore.ErrExists) {
		return fmt.Errorf("probe %s: %w", s.URL(), plain(err))
	}
	s.probed = true
	return nil
}

// plain hides ErrUnknownOutcome: the caller's own object was not sent yet, so its outcome is known.
func plain(err error) error {
	if errors.Is(err, objstore.ErrUnknownOutcome) {
		return errors.New(err.Error())
	}
	return err
}

// probePrefix begins the names of probes; listings leave them out.
const probePrefix = ".ledgerlake-probe-"

// status is the HTTP status of an answer that is an error; 0 when there was no answer.
func status(err error) int {
	var re *smithyhttp.ResponseError
	if errors.As(err, &re) {
		return re.HTTPStatusCode()
	}
	return 0
}

// writeError tells failures that certainly wrote nothing from those that leave it open.
func writeError(verb, key string, err error) error {
	if err == nil {
		return nil
	}
	err = Explain(err)
	if errors.Is(err, ErrCredentials) || errors.Is(err, ErrScheme) || errors.Is(err, ErrUnreachable) { // nothing was sent
		return fmt.Errorf("%s %s: %w", verb, key, err)
	}
	if code := status(err); code >= 300 && code < 500 {
		return fmt.Errorf("%s %s: %w", verb, key, err)
	}
	return fmt.Errorf("%s %s: %w: %w", verb, key, objstore.ErrUnknownOutcome, err)
}
