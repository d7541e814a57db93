package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

// CreateTopic makes a topic with the cluster's own replication factor. For a topic
// that is there the error wraps broker.ErrTopicExists.
func CreateTopic(ctx context.Context, cfg Config, topic string, partitions int32, settings map[string]string) error {
	cl, err := cfg.newClient(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, -1
	for name, value := range settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, t), 30_000
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("create topic %s: the cluster gave no answer", topic)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", topic, broker.ErrTopicExists)
		}
		return fmt.Errorf("create topic %s: %w: %s", topic, err, deref(resp.Topics[0].ErrorMessage))
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
