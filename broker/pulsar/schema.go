package pulsar

import (
	"context"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/wire"
)

// Schema gives a version of a topic's schema, as messages name it; nil: the newest. broker.ErrUnknownTopic when there is no
// such one. Partitions share their topic's.
func (s *Source) Schema(ctx context.Context, topic string, version []byte) (schema wire.Schema, err error) {
	err = s.retry(ctx, func() error {
		schema, err = s.client.Schema(ctx, "persistent://"+topic, version)
		return err
	})
	return schema, err
}
