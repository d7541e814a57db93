package deltalog

import "errors"

// rowReader gives the function that takes the action out of the column's current row.
func (a *actions) rowReader(c *parquetColumn, in *interner) func() error {
	switch c.name {
	case "add":
		return a.addReader(c, in)
	case "remove":
		return a.removeReader(c, in)
	case "txn":
		return a.txnReader(c, in)
	case "metaData":
		return a.metadataReader(c, in)
	case "protocol":
		return a.protocolReader(c)
	case "domainMetadata":
		domain, conf, removed := c.leaf("domain"), c.leaf("configuration"), c.leaf("removed")
		return func() error {
			if !domain.ok() {
				return nil
			}
			gone, _ := removed.bool()
			a.domains = append(a.domains, DomainMetadata{Domain: domain.kept(in), Configuration: conf.kept(in), Removed: gone})
			return nil
		}
	case "sidecar":
		path, size := c.leaf("path"), c.leaf("sizeInBytes")
		return func() error {
			if !path.ok() {
				return nil
			}
			n, _ := size.int()
			a.sidecars = append(a.sidecars, Sidecar{Path: path.kept(in), SizeInBytes: n})
			return nil
		}
	}
	return func() error { a.v2 = true; return nil } // checkpointMetadata
}

// addReader, like the readers below, passes over rows in which the field that no action lacks is null: some
// writers keep an all-null struct in rows of other actions.
func (a *actions) addReader(c *parquetColumn, in *interner) func() error {
	path, size, modified, change := c.leaf("path"), c.leaf("size"), c.leaf("modificationTime"), c.leaf("dataChange")
	values, tags, dv := c.mapOf("partitionValues"), c.mapOf("tags"), dvReader(c, in)
	base, commit, provider, stats := c.leaf("baseRowId"), c.leaf("defaultRowCommitVersion"), c.leaf("clusteringProvider"), c.leaf("stats")
	parsed := newStatsReader(c.parsed)
	var buf []byte
	return func() error {
		if !path.ok() {
			return nil
		}
		x := a.addSlot()
		x.Path, x.PartitionValues, x.Stats, x.DeletionVector = path.text(), values.shared(in), stats.text(), dv()
		x.BaseRowID, x.DefaultRowCommitVersion, x.ClusteringProvider = base.intPtr(), commit.intPtr(), provider.kept(in)
		x.Size, _ = size.int()
		x.ModificationTime, _ = modified.int()
		x.DataChange, _ = change.bool()
		if x.Stats == "" {
			x.Stats = parsed.json()
		}
		text := ""
		if m := tags.get(); m != nil {
			buf = appendTextMap(buf[:0], m)
			text = string(buf)
		}
		a.tagTexts = append(a.tagTexts, text)
		return checkAdd(x)
	}
}

func (a *actions) removeReader(c *parquetColumn, in *interner) func() error {
	path, deleted, change, extended := c.leaf("path"), c.leaf("deletionTimestamp"), c.leaf("dataChange"), c.leaf("extendedFileMetadata")
	values, dv := c.mapOf("partitionValues"), dvReader(c, in)
	size, base, commit := c.leaf("size"), c.leaf("baseRowId"), c.leaf("defaultRowCommitVersion")
	return func() error {
		if !path.ok() {
			return nil
		}
		x := Remove{Path: path.text(), DeletionTimestamp: deleted.intPtr(), PartitionValues: values.shared(in), Size: size.intPtr(),
			DeletionVector: dv(), BaseRowID: base.intPtr(), DefaultRowCommitVersion: commit.intPtr()}
		x.DataChange, _ = change.bool()
		if v, ok := extended.bool(); ok {
			x.ExtendedFileMetadata = &v
		}
		return a.remove(&x)
	}
}

func dvReader(c *parquetColumn, in *interner) func() *DeletionVector {
	kind, path, offset := c.leaf("deletionVector.storageType"), c.leaf("deletionVector.pathOrInlineDv"), c.leaf("deletionVector.offset")
	size, rows, last := c.leaf("deletionVector.sizeInBytes"), c.leaf("deletionVector.cardinality"), c.leaf("deletionVector.maxRowIndex")
	return func() *DeletionVector {
		if !kind.ok() {
			return nil
		}
		d := &DeletionVector{StorageType: kind.kept(in), PathOrInlineDV: path.kept(in), MaxRowIndex: last.intPtr()}
		if v, ok := offset.int(); ok {
			off := int32(v)
			d.Offset = &off
		}
		n, _ := size.int()
		d.SizeInBytes = int32(n)
		d.Cardinality, _ = rows.int()
		return d
	}
}

func (a *actions) txnReader(c *parquetColumn, in *interner) func() error {
	app, version, updated := c.leaf("appId"), c.leaf("version"), c.leaf("lastUpdated")
	return func() error {
		if !app.ok() {
			return nil
		}
		v, ok := version.int()
		if !ok {
			return errors.New("txn without version")
		}
		a.txns = append(a.txns, Txn{AppID: app.kept(in), Version: v, LastUpdated: updated.intPtr()})
		return nil
	}
}

func (a *actions) metadataReader(c *parquetColumn, in *interner) func() error {
	id, name, description, schema := c.leaf("id"), c.leaf("name"), c.leaf("description"), c.leaf("schemaString")
	provider, options := c.leaf("format.provider"), c.mapOf("format.options")
	partitions, conf, created := c.leaf("partitionColumns#element"), c.mapOf("configuration"), c.leaf("createdTime")
	return func() error {
		if !id.ok() && !schema.ok() {
			return nil
		}
		if a.metadata != nil {
			return errors.New("second metaData action")
		}
		a.metadata = &Metadata{ID: id.kept(in), Name: name.kept(in), Description: description.kept(in), SchemaString: schema.kept(in),
			Format: Format{Provider: provider.kept(in), Options: options.plain()}, PartitionColumns: partitions.list(),
			Configuration: conf.plain(), CreatedTime: created.intPtr()}
		a.metadata.normalize()
		return nil
	}
}

func (a *actions) protocolReader(c *parquetColumn) func() error {
	reader, writer := c.leaf("minReaderVersion"), c.leaf("minWriterVersion")
	readerFeatures, writerFeatures := c.leaf("readerFeatures#element"), c.leaf("writerFeatures#element")
	return func() error {
		r, ok1 := reader.int()
		w, ok2 := writer.int()
		if !ok1 && !ok2 {
			return nil
		}
		if !ok1 || !ok2 {
			return errors.New("protocol without minReaderVersion or minWriterVersion")
		}
		if a.protocol != nil {
			return errors.New("second protocol action")
		}
		a.protocol = &Protocol{MinReaderVersion: int32(r), MinWriterVersion: int32(w),
			ReaderFeatures: readerFeatures.list(), WriterFeatures: writerFeatures.list()}
		return nil
	}
}
