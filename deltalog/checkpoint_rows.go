package deltalog

func (c *columnWriter) protocol(p *Protocol) error {
	f := c.row(colProtocol)
	f.integer(p.MinReaderVersion)
	f.integer(p.MinWriterVersion)
	// The arrays are there exactly when the versions ask for them; Spark refuses anything else.
	if p.MinReaderVersion >= 3 {
		f.list(p.ReaderFeatures)
	} else {
		f.null(1)
	}
	if p.MinWriterVersion >= 7 {
		f.list(p.WriterFeatures)
	} else {
		f.null(1)
	}
	return c.done()
}

func (c *columnWriter) metadata(m *Metadata) error {
	f := c.row(colMetadata)
	f.text(m.ID)
	f.some(m.Name)
	f.some(m.Description)
	f.group()
	f.some(m.Format.Provider)
	f.settings(m.Format.Options)
	f.leave()
	f.some(m.SchemaString)
	f.list(m.PartitionColumns)
	f.settings(m.Configuration)
	f.longPtr(m.CreatedTime)
	return c.done()
}

func (c *columnWriter) txn(t *Txn) error {
	f := c.row(colTxn)
	f.text(t.AppID)
	f.long(t.Version)
	f.longPtr(t.LastUpdated)
	return c.done()
}

func (c *columnWriter) domain(d *DomainMetadata) error {
	f := c.row(colDomain)
	f.text(d.Domain)
	f.text(d.Configuration)
	f.boolean(d.Removed)
	return c.done()
}

// add writes a file. dataChange is false for all actions of a checkpoint, as Spark does.
func (c *columnWriter) add(a *Add) error {
	f := c.row(colAdd)
	f.text(a.Path)
	pv := a.PartitionValues
	if pv == nil {
		pv = noValues()
	}
	f.values(pv)
	f.long(a.Size)
	f.long(a.ModificationTime)
	f.boolean(false)
	f.values(a.Tags)
	f.dv(a.DeletionVector)
	f.longPtr(a.BaseRowID)
	f.longPtr(a.DefaultRowCommitVersion)
	f.some(a.ClusteringProvider)
	if c.plan == nil || c.plan.json {
		f.some(a.Stats)
	}
	if c.plan != nil {
		f.structs(c.plan, a)
	}
	return c.done()
}

// remove writes a tombstone; statistics and tags are left out, as the protocol says.
func (c *columnWriter) remove(x *Remove) error {
	f := c.row(colRemove)
	f.text(x.Path)
	f.longPtr(x.DeletionTimestamp)
	f.boolean(false)
	f.boolPtr(x.ExtendedFileMetadata)
	f.values(x.PartitionValues)
	f.longPtr(x.Size)
	f.dv(x.DeletionVector)
	f.longPtr(x.BaseRowID)
	f.longPtr(x.DefaultRowCommitVersion)
	return c.done()
}

// manifest says that the file is a V2 checkpoint.
func (c *columnWriter) manifest(v Version, tags map[string]*string) error {
	f := c.row(colCheckpoint)
	f.long(int64(v))
	f.values(tags)
	return c.done()
}

// sidecar names a file with adds and removes.
func (c *columnWriter) sidecar(s *Sidecar) error {
	f := c.row(colSidecar)
	f.text(s.Path)
	f.long(s.SizeInBytes)
	f.long(s.ModificationTime)
	f.values(nil)
	return c.done()
}
