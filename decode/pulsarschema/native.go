package pulsarschema

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// native is the definition of a PROTOBUF_NATIVE schema.
type native struct {
	set   []byte // a serialized FileDescriptorSet
	root  string // full name of the message
	file  *descriptorpb.FileDescriptorProto
	other []*descriptorpb.FileDescriptorProto
	index []int // of the message in its file, then in each message above
}

func parseNative(data []byte) (*native, error) {
	var in struct {
		Set  []byte `json:"fileDescriptorSet"`
		Root string `json:"rootMessageTypeName"`
		File string `json:"rootFileDescriptorName"`
	}
	bad := func(err error) (*native, error) {
		return nil, fmt.Errorf("%w: PROTOBUF_NATIVE: %w", ErrSchema, err)
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return bad(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(in.Set, &set); err != nil {
		return bad(err)
	}
	n := &native{set: in.Set, root: in.Root}
	for _, f := range set.GetFile() {
		if f.GetName() == in.File {
			n.file = f
		} else {
			n.other = append(n.other, f)
		}
	}
	if n.file == nil {
		return bad(fmt.Errorf("the file %q is not in it", in.File))
	}
	name := strings.TrimPrefix(in.Root, n.file.GetPackage())
	list := n.file.GetMessageType()
	for part := range strings.SplitSeq(strings.TrimPrefix(name, "."), ".") {
		at := -1
		for i, m := range list {
			if m.GetName() == part {
				at = i
			}
		}
		if at < 0 {
			return bad(fmt.Errorf("the message %q is not in the file %q", in.Root, in.File))
		}
		n.index = append(n.index, at)
		list = list[at].GetNestedType()
	}
	return n, nil
}

// registered gives the definition as a serializer of Confluent's registers it: descriptors in base64.
func (n *native) registered(id int) *registry.Schema {
	text := func(f *descriptorpb.FileDescriptorProto) string {
		raw, err := proto.Marshal(f)
		if err != nil { // it was read from bytes
			panic(err)
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	s := &registry.Schema{ID: id, Kind: registry.Protobuf, Text: text(n.file)}
	for _, f := range n.other {
		s.Refs = append(s.Refs, registry.Ref{Name: f.GetName(), Text: text(f)})
	}
	return s
}

// appendIndex appends the place of the message as values behind a schema id have it: a count and so many places.
func (n *native) appendIndex(b []byte) []byte {
	b = binary.AppendVarint(b, int64(len(n.index)))
	for _, i := range n.index {
		b = binary.AppendVarint(b, int64(i))
	}
	return b
}
