package deltalog

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// feature is what this package knows about one table feature.
type feature struct {
	name   string
	reader bool // readers must know it too
	// legacyReader and legacyWriter are the protocol versions that stand for it; 0: there is none.
	legacyReader, legacyWriter int32
	replay                     bool // the log of a table with it can be replayed
	keep                       bool // a writer that does what this package does keeps its rules
	raise                      bool // may be turned on here
	needs                      string
}

// features are all that are known by name. What is not here is refused by its name. Readable means that the log
// can be replayed: whether the data files can be read is for the layer above to say, see Snapshot.ReaderFeatures.
func features() []feature {
	return []feature{
		{name: "appendOnly", legacyWriter: 2, replay: true, keep: true, raise: true},
		{name: "invariants", legacyWriter: 2, replay: true, keep: true, raise: true},
		{name: "checkConstraints", legacyWriter: 3, replay: true, keep: true},
		{name: "changeDataFeed", legacyWriter: 4, replay: true, keep: true, raise: true},
		{name: "generatedColumns", legacyWriter: 4, replay: true, keep: true},
		{name: "columnMapping", reader: true, legacyReader: 2, legacyWriter: 5, replay: true, keep: true, raise: true},
		{name: "identityColumns", legacyWriter: 6, replay: true, keep: true},
		{name: "timestampNtz", reader: true, replay: true, keep: true, raise: true},
		{name: "timestampWithoutTimezone", reader: true, replay: true, keep: true}, // an old name of the former
		{name: "deletionVectors", reader: true, replay: true, keep: true, raise: true},
		{name: "v2Checkpoint", reader: true, replay: true, keep: true, raise: true},
		{name: "domainMetadata", replay: true, keep: true, raise: true},
		{name: "inCommitTimestamp", replay: true, keep: true, raise: true},
		{name: "clustering", replay: true, keep: true, needs: "domainMetadata"},
		{name: "vacuumProtocolCheck", reader: true, replay: true, keep: true, raise: true},
		{name: "allowColumnDefaults", replay: true, keep: true},
		{name: "typeWidening", reader: true, replay: true, keep: true, raise: true},
		{name: "typeWidening-preview", reader: true, replay: true, keep: true},
		{name: "checkpointProtection", replay: true, keep: true},
		{name: "variantType", reader: true, replay: true},
		{name: "variantType-preview", reader: true, replay: true},
		{name: "variantShredding", reader: true, replay: true},
		{name: "variantShredding-preview", reader: true, replay: true},
	}
}

func featureOf(name string) feature {
	for _, f := range features() {
		if f.name == name {
			return f
		}
	}
	return feature{name: name}
}

// managedFeature names features under which versions may be committed outside of _delta_log: even reading would be stale.
func managedFeature(name string) bool {
	return name == "catalogManaged" || strings.HasPrefix(name, "catalogOwned") ||
		strings.HasPrefix(name, "coordinatedCommits") || strings.HasPrefix(name, "managedCommit")
}

// Features names what the protocol supports, sorted: its lists, and what versions below 3 and 7 stand for.
func (p *Protocol) Features() []string {
	var out []string
	if p.MinReaderVersion >= 3 {
		out = append(out, p.ReaderFeatures...)
	}
	if p.MinWriterVersion >= 7 {
		out = append(out, p.WriterFeatures...)
	}
	for _, f := range features() {
		if f.legacyWriter > 0 && p.MinWriterVersion < 7 && p.MinWriterVersion >= f.legacyWriter &&
			(f.legacyReader == 0 || p.MinReaderVersion >= f.legacyReader) {
			out = append(out, f.name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// raise gives the lowest protocol that has what p has and the features asked for: versions alone while all of
// them have one, else lists. Never lists below version 3 and 7: other readers refuse those.
func (p Protocol) raise(need []string) (Protocol, error) {
	want := p.Features()
	var unknown []string
	for todo := slices.Clone(need); len(todo) > 0; todo = todo[1:] {
		f := featureOf(todo[0])
		if slices.Contains(want, f.name) {
			continue
		}
		if !f.raise {
			unknown = append(unknown, "feature "+f.name)
			continue
		}
		want = append(want, f.name)
		if f.needs != "" {
			todo = append(todo, f.needs)
		}
	}
	if len(unknown) > 0 {
		return p, unsupported(true, unknown)
	}
	if len(want) == len(p.Features()) {
		return p, nil
	}
	sort.Strings(want)
	out := Protocol{MinReaderVersion: p.MinReaderVersion, MinWriterVersion: p.MinWriterVersion}
	legacy := p.MinWriterVersion < 7
	lists := p.MinReaderVersion >= 3
	for _, name := range want {
		f := featureOf(name)
		legacy = legacy && f.legacyWriter > 0
		lists = lists || f.reader && f.legacyReader == 0
		out.MinReaderVersion = max(out.MinReaderVersion, f.legacyReader)
		out.MinWriterVersion = max(out.MinWriterVersion, f.legacyWriter)
	}
	if legacy {
		return out, nil
	}
	out.MinWriterVersion, out.WriterFeatures = 7, want
	if lists {
		out.MinReaderVersion, out.ReaderFeatures = 3, []string{} // missing, it would say that nobody knows
		for _, name := range want {
			if featureOf(name).reader {
				out.ReaderFeatures = append(out.ReaderFeatures, name)
			}
		}
	}
	return out, nil
}

// isOn reads a boolean setting.
func isOn(conf map[string]string, key string) bool { return strings.EqualFold(conf[key], "true") }

// neededFeatures gives the features that a schema and settings ask for. Settings that ask for what this package
// cannot keep are an error that names them.
func neededFeatures(s *StructType, conf map[string]string) ([]string, error) {
	var need, refused []string
	if holdsType(s, TimestampNTZ) {
		need = append(need, "timestampNtz")
	}
	for k, v := range conf {
		on := strings.EqualFold(v, "true")
		name, isFeature := strings.CutPrefix(k, "delta.feature.")
		switch {
		case isFeature && (strings.EqualFold(v, "supported") || strings.EqualFold(v, "enabled")):
			need = append(need, name)
		case isFeature:
			refused = append(refused, "setting "+k+"="+v)
		case k == "delta.appendOnly" && on:
			need = append(need, "appendOnly")
		case k == ictSetting && on:
			need = append(need, "inCommitTimestamp")
		case k == "delta.enableChangeDataFeed" && on:
			need = append(need, "changeDataFeed")
		case k == "delta.enableDeletionVectors" && on:
			need = append(need, "deletionVectors")
		case k == "delta.enableTypeWidening" && on:
			need = append(need, "typeWidening")
		case k == mappingMode && !strings.EqualFold(v, "none"):
			if mappingOf(conf) == "" {
				refused = append(refused, "setting "+k+"="+v)
			}
			need = append(need, "columnMapping")
		case k == "delta.checkpointPolicy" && v == "v2":
			need = append(need, "v2Checkpoint")
		case k == "delta.checkpointPolicy" && v != "classic", k == "delta.enableRowTracking" && on,
			strings.HasPrefix(k, "delta.enableIcebergCompat") && on, strings.HasPrefix(k, "delta.constraints."):
			refused = append(refused, "setting "+k+"="+v)
		}
	}
	sort.Strings(refused)
	sort.Strings(need)
	return slices.Compact(need), unsupported(true, refused)
}

// withoutFeatureSettings drops the settings that only ask for a feature: the protocol records them.
func withoutFeatureSettings(conf map[string]string) map[string]string {
	out := make(map[string]string, len(conf))
	for k, v := range conf {
		if !strings.HasPrefix(k, "delta.feature.") {
			out[k] = v
		}
	}
	return out
}

// checkUpgrade refuses a new protocol that takes away what the table has: dropping a feature needs the history
// rewritten, which this package does not do.
func checkUpgrade(old, p *Protocol) error {
	if p.MinReaderVersion < old.MinReaderVersion || p.MinWriterVersion < old.MinWriterVersion {
		return fmt.Errorf("%w: protocol (%d,%d) is lower than the table's (%d,%d)", ErrInvalidCommit,
			p.MinReaderVersion, p.MinWriterVersion, old.MinReaderVersion, old.MinWriterVersion)
	}
	have := p.Features()
	for _, f := range old.Features() {
		if !slices.Contains(have, f) {
			return fmt.Errorf("%w: the new protocol drops feature %s", ErrInvalidCommit, f)
		}
	}
	if p.MinReaderVersion < 3 {
		return nil
	}
	for _, f := range old.Features() {
		if featureOf(f).reader && !slices.Contains(p.ReaderFeatures, f) {
			return fmt.Errorf("%w: the new protocol drops reader feature %s", ErrInvalidCommit, f)
		}
	}
	for _, f := range p.ReaderFeatures {
		if !slices.Contains(p.WriterFeatures, f) {
			return fmt.Errorf("%w: reader feature %s is not among the writer features", ErrInvalidCommit, f)
		}
	}
	return nil
}
