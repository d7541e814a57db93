package deltalog

import (
	"errors"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// Checkpoints have exactly the physical schema that Spark writes: every field optional except map keys, the same
// column order, key_value maps, list.element lists and integers without annotation. Other readers have failed on
// every deviation. It is built by hand because a schema derived from Arrow annotates the integers.

// The action columns, in file order.
const (
	colTxn = iota
	colAdd
	colRemove
	colMetadata
	colProtocol
	colDomain
	colCheckpoint
	colSidecar
	numActionColumns
)

// classicColumns are those of a checkpoint in one file, manifestColumns those of a V2 checkpoint's, and
// sidecarColumns those of the files that it names.
func classicColumns() []int {
	return []int{colTxn, colAdd, colRemove, colMetadata, colProtocol, colDomain}
}
func manifestColumns() []int { return append(classicColumns(), colCheckpoint, colSidecar) }
func sidecarColumns() []int  { return []int{colAdd, colRemove} }

// nodeMaker builds schema nodes and keeps the first error, so that the schema reads as a list.
type nodeMaker struct{ errs []error }

func (m *nodeMaker) keep(err error) {
	if err != nil {
		m.errs = append(m.errs, err)
	}
}

func (m *nodeMaker) text(name string) schema.Node {
	return m.textNode(name, parquet.Repetitions.Optional)
}

func (m *nodeMaker) textNode(name string, rep parquet.Repetition) schema.Node {
	n, err := schema.NewPrimitiveNodeLogical(name, rep, schema.StringLogicalType{}, parquet.Types.ByteArray, -1, -1)
	m.keep(err)
	return n
}

func (m *nodeMaker) long(name string) schema.Node {
	return schema.NewInt64Node(name, parquet.Repetitions.Optional, -1)
}

func (m *nodeMaker) integer(name string) schema.Node {
	return schema.NewInt32Node(name, parquet.Repetitions.Optional, -1)
}

func (m *nodeMaker) boolean(name string) schema.Node {
	return schema.NewBooleanNode(name, parquet.Repetitions.Optional, -1)
}

func (m *nodeMaker) textMap(name string) schema.Node {
	n, err := schema.MapOf(name, m.textNode("key", parquet.Repetitions.Required), m.text("value"), parquet.Repetitions.Optional, -1)
	m.keep(err)
	return n
}

func (m *nodeMaker) textList(name string) schema.Node {
	n, err := schema.ListOfWithName(name, m.text("element"), parquet.Repetitions.Optional, -1)
	m.keep(err)
	return n
}

func (m *nodeMaker) group(name string, fields ...schema.Node) schema.Node {
	n, err := schema.NewGroupNode(name, parquet.Repetitions.Optional, fields, -1)
	m.keep(err)
	return n
}

func (m *nodeMaker) dv() schema.Node {
	return m.group("deletionVector", m.text("storageType"), m.text("pathOrInlineDv"), m.integer("offset"),
		m.integer("sizeInBytes"), m.long("cardinality"), m.long("maxRowIndex"))
}

// checkpointSchema gives the schema of a file of a checkpoint with the given columns; plan may be nil.
func checkpointSchema(columns []int, plan *structPlan) (*schema.GroupNode, error) {
	m := &nodeMaker{}
	var fields [numActionColumns]schema.Node
	fields[colTxn] = m.group("txn", m.text("appId"), m.long("version"), m.long("lastUpdated"))
	add := []schema.Node{m.text("path"), m.textMap("partitionValues"), m.long("size"), m.long("modificationTime"),
		m.boolean("dataChange"), m.textMap("tags"), m.dv(), m.long("baseRowId"), m.long("defaultRowCommitVersion"),
		m.text("clusteringProvider")}
	if plan == nil || plan.json {
		add = append(add, m.text("stats"))
	}
	if plan != nil {
		add = append(add, plan.nodes(m)...)
	}
	fields[colAdd] = m.group("add", add...)
	fields[colRemove] = m.group("remove", m.text("path"), m.long("deletionTimestamp"), m.boolean("dataChange"),
		m.boolean("extendedFileMetadata"), m.textMap("partitionValues"), m.long("size"), m.dv(), m.long("baseRowId"),
		m.long("defaultRowCommitVersion"))
	fields[colMetadata] = m.group("metaData", m.text("id"), m.text("name"), m.text("description"),
		m.group("format", m.text("provider"), m.textMap("options")), m.text("schemaString"), m.textList("partitionColumns"),
		m.textMap("configuration"), m.long("createdTime"))
	fields[colProtocol] = m.group("protocol", m.integer("minReaderVersion"), m.integer("minWriterVersion"),
		m.textList("readerFeatures"), m.textList("writerFeatures"))
	fields[colDomain] = m.group("domainMetadata", m.text("domain"), m.text("configuration"), m.boolean("removed"))
	fields[colCheckpoint] = m.group("checkpointMetadata", m.long("version"), m.textMap("tags"))
	fields[colSidecar] = m.group("sidecar", m.text("path"), m.long("sizeInBytes"), m.long("modificationTime"), m.textMap("tags"))
	chosen := make(schema.FieldList, len(columns))
	for i, c := range columns {
		chosen[i] = fields[c]
	}
	root, err := schema.NewGroupNode("spark_schema", parquet.Repetitions.Required, chosen, -1)
	m.keep(err)
	return root, errors.Join(m.errs...)
}
