package wire

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
)

// Who may ask for a coordinator finds the topic of its state afterwards, as in Kafka, before anything is in it: kgo's own tests
// read such a topic. A refused one makes nothing.
func TestCoordinatorsTopicIsThere(t *testing.T) {
	log := newMemLog(t)
	s := guardedServer(t, log, nil)
	ctx := within(t, 20*time.Second)
	grant(t, s, allow("ann", acl.Read, acl.Group, "g"))
	topics := func() (names []string) {
		infos, err := log.Topics(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range infos {
			if in.Name != SettingsTopic {
				names = append(names, in.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	find := func(cl *kgo.Client, kind int8, key string, want int16) {
		t.Helper()
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = kind, key, []string{key}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil || len(resp.Coordinators) != 1 || resp.Coordinators[0].ErrorCode != want {
			t.Fatalf("type %d, %s: %+v, %v", kind, key, resp, err)
		}
	}
	ann, root := as(t, s, "ann"), as(t, s, "root")
	find(ann, 0, "another", codeGroupAuthorization)
	find(ann, 1, "x", codeTxnIDAuthorization)
	find(root, 2, "g:AAAAAAAAAAAAAAAAAAAAAA:0", codeInvalidRequest)
	if got := topics(); len(got) > 0 {
		t.Fatalf("a refusal made %v", got)
	}
	find(ann, 0, "g", codeNone)
	if got := topics(); !slices.Equal(got, []string{OffsetsTopic}) {
		t.Fatalf("a group's coordinator made %v", got)
	}
	find(root, 1, "x", codeNone)
	find(root, 0, "g", codeNone)
	if got := topics(); !slices.Equal(got, []string{OffsetsTopic, TransactionsTopic}) {
		t.Fatalf("both coordinators made %v", got)
	}
	req := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = ptr(OffsetsTopic)
	req.Topics = append(req.Topics, mt)
	resp, err := req.RequestWith(ctx, root)
	if err != nil || len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 || !resp.Topics[0].IsInternal {
		t.Errorf("metadata: %+v, %v", resp, err)
	}
}
