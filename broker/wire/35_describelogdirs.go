package wire

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

// sizer is a Log that knows how much its partitions take on disk.
type sizer interface {
	Size(ctx context.Context, tp record.TopicPartition) (bytes int64, err error)
}

// DescribeLogDirs, key 35, versions 1 to 5, when the Log knows its sizes.
//
// One directory, named "log", with the bytes of each partition's segments on the local disk; what is in the lake
// is not counted. The sizes of the volume are not told (-1). Before version 3 an error is that of the directory:
// there is no other place for it. Needs Describe on the cluster.
func apiDescribeLogDirs() api {
	return api{key: 35, name: "DescribeLogDirs", min: 1, max: 5, handle: (*Server).describeLogDirs}
}

func (s *Server) describeLogDirs(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = "log", -1, -1
	var all map[string]broker.TopicInfo
	err := s.allowedCluster(r, acl.Describe)
	if err == nil {
		all, err = s.topics.all(r.ctx)
	}
	if err != nil {
		if resp.ErrorCode = codeOf(err); r.version < 3 {
			dir.ErrorCode = resp.ErrorCode
			resp.Dirs = append(resp.Dirs, dir)
		}
		return resp, nil
	}
	asked := map[string][]int32{} // an empty list means all partitions
	for _, t := range req.Topics {
		asked[t.Topic] = append(asked[t.Topic], t.Partitions...)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		want, named := asked[name]
		if req.Topics != nil && !named {
			continue
		}
		ot := kmsg.NewDescribeLogDirsResponseDirTopic()
		ot.Topic = name
		for p := range all[name].Config.Partitions {
			if len(want) > 0 && !slices.Contains(want, p) {
				continue
			}
			n, err := s.log.(sizer).Size(r.ctx, record.TopicPartition{Topic: name, Partition: p})
			if err != nil {
				continue // deleted meanwhile
			}
			if err := s.charge(r, 96); err != nil {
				return nil, err
			}
			op := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			op.Partition, op.Size = p, n
			ot.Partitions = append(ot.Partitions, op)
		}
		dir.Topics = append(dir.Topics, ot)
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp, nil
}
