package protobuf

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// ErrSchema says that a schema is no Protobuf schema, or has no such message.
var ErrSchema = errors.New("decode protobuf: invalid schema")

// fromSet finds a message in a serialized FileDescriptorSet.
func fromSet(set []byte, message string) (protoreflect.MessageDescriptor, error) {
	var fds descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &fds); err != nil {
		return nil, fmt.Errorf("%w: the descriptor set is damaged: %w", ErrSchema, err)
	}
	files, err := protodesc.NewFiles(&fds)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; was it written with --include_imports?", ErrSchema, err)
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(message))
	if err != nil {
		return nil, fmt.Errorf("%w: the descriptor set has no message %s", ErrSchema, message)
	}
	m, ok := d.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, fmt.Errorf("%w: %s is no message", ErrSchema, message)
	}
	return m, nil
}

// rootFile is the name under which a schema of the registry is compiled; it has none of its own.
const rootFile = "schema.registry.proto"

// compileText compiles the .proto text of a registry with the files that it imports.
func compileText(s *registry.Schema) (protoreflect.FileDescriptor, error) {
	sources := map[string]string{rootFile: s.Text}
	for _, r := range s.Refs {
		sources[r.Name] = r.Text
	}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(resolver(sources)), MaxParallelism: 1}
	files, err := c.Compile(context.Background(), rootFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return files[0], nil
}

// resolver finds files by the names of imports.
type resolver map[string]string

// FindFileByPath gives the text of a file, or its descriptor: serializers register that in base64, and not every
// registry makes text of it.
func (r resolver) FindFileByPath(path string) (protocompile.SearchResult, error) {
	text, ok := r[path]
	if !ok {
		return protocompile.SearchResult{}, protoregistry.NotFound
	}
	var fd descriptorpb.FileDescriptorProto
	if raw, err := base64.StdEncoding.DecodeString(text); err == nil && proto.Unmarshal(raw, &fd) == nil {
		fd.Name = proto.String(path)
		nameJSON(fd.GetMessageType(), fd.GetExtension())
		return protocompile.SearchResult{Proto: &fd}, nil
	}
	return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
}

// nameJSON gives fields a JSON name where the descriptor has none, as Google's Python library leaves it: the compiler
// takes them for fields of one and the same empty name. Nothing here reads JSON names, so any that differ will do.
func nameJSON(messages []*descriptorpb.DescriptorProto, fields []*descriptorpb.FieldDescriptorProto) {
	for _, f := range fields {
		if f.GetJsonName() == "" {
			f.JsonName = proto.String(f.GetName())
		}
	}
	for _, m := range messages {
		nameJSON(nil, m.GetField())
		nameJSON(m.GetNestedType(), m.GetExtension())
	}
}

// at finds the message of an index: the place in the file, then in each message above.
func at(file protoreflect.FileDescriptor, index []int) (protoreflect.MessageDescriptor, error) {
	list := file.Messages()
	var m protoreflect.MessageDescriptor
	for _, i := range index {
		if i < 0 || i >= list.Len() {
			return nil, fmt.Errorf("the schema has no message at index %v", index)
		}
		m = list.Get(i)
		list = m.Messages()
	}
	return m, nil
}

// byName finds a message of a file by its full name.
func byName(list protoreflect.MessageDescriptors, name string) protoreflect.MessageDescriptor {
	for i := range list.Len() {
		m := list.Get(i)
		if string(m.FullName()) == name {
			return m
		}
		if m := byName(m.Messages(), name); m != nil {
			return m
		}
	}
	return nil
}
