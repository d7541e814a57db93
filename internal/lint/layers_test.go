package lint

import (
	"fmt"
	"strings"
	"testing"
)

// layers, lowest first. A package imports packages of lower layers and of its own unit only. A unit is
// the longest of these names that its path starts with; "broker" is the contract of all logs, alone.
var layers = [][]string{
	{"internal"},
	{"objstore", "record"},
	{"segment", "deltalog"},
	{"broker"},
	{"broker/local", "broker/kafka", "broker/logdir", "broker/pulsar", "committer", "decode", "table"},
	{"tiering", "reader", "broker/wire", "maintenance"},
	{"reprocess", "ingest", "web", "flight"},
	{"bench"},
	{"cmd"},
	{"test"},
}

// sdks are client libraries of a vendor and the folders that may import them. Everything else goes
// through the contract of that folder, so that a vendor can be replaced at one place.
var sdks = map[string][]string{
	"github.com/twmb/franz-go/pkg/kgo":   {"broker/kafka"},
	"github.com/twmb/franz-go/pkg/kadm":  {"broker/kafka"},
	"github.com/twmb/franz-go/pkg/kmsg":  {"broker/kafka", "broker/wire"},
	"github.com/twmb/franz-go/pkg/sr":    {"internal/registry"},
	"github.com/aws/aws-sdk-go-v2":       {"objstore/s3"},
	"github.com/aws/smithy-go":           {"objstore/s3"},
	"golang.org/x/oauth2":                {"objstore/gs"},
	"github.com/Azure":                   {"objstore/az"},
	"github.com/hashicorp/raft":          {"committer/raft"},
	"github.com/hashicorp/raft-wal":      {"committer/raft"},
	"github.com/apache/pulsar-client-go": {"broker/pulsar"},
}

func unit(p string) (name string, layer int, ok bool) {
	p = strings.TrimPrefix(p, "./")
	for i, names := range layers {
		for _, n := range names {
			under := strings.HasPrefix(p, n+"/") && n != "broker"
			if (p == n || under) && len(n) > len(name) {
				name, layer, ok = n, i, true
			}
		}
	}
	return name, layer, ok
}

func checkDirection(packages []pkg) (found []finding) {
	for _, p := range packages {
		from, fromLayer, ok := unit(p.path)
		if !ok {
			found = append(found, finding{"import-direction", p.path, "the package is in no layer",
				"Add its folder to layers in internal/lint/layers_test.go, and to the picture in DESIGN.md"})
			continue
		}
		if testSupport(p.path) {
			continue
		}
		for _, imp := range p.imports {
			if !strings.HasPrefix(imp, "./") {
				continue
			}
			to, toLayer, ok := unit(imp)
			if !ok || to == from || toLayer < fromLayer {
				continue // an unknown one is reported above
			}
			found = append(found, finding{"import-direction", p.path,
				fmt.Sprintf("%s must not import %s, which is not below it", from, to),
				"Declare the small interface that you need where you need it, and let cmd join the two"})
		}
	}
	return found
}

func checkSDKs(packages []pkg) (found []finding) {
	for _, p := range packages {
		if testSupport(p.path) {
			continue
		}
		for _, imp := range p.imports {
			for sdk, homes := range sdks {
				if imp != sdk && !strings.HasPrefix(imp, sdk+"/") {
					continue
				}
				if !underAny(p.path, homes) {
					found = append(found, finding{"vendor-sdk", p.path, "it imports " + imp,
						"Only " + strings.Join(homes, " and ") + " may; use or extend what it exports"})
				}
			}
		}
	}
	return found
}

func underAny(p string, folders []string) bool {
	p = strings.TrimPrefix(p, "./")
	for _, f := range folders {
		if p == f || strings.HasPrefix(p, f+"/") {
			return true
		}
	}
	return false
}

func checkTestImports(packages []pkg) (found []finding) {
	for _, p := range packages {
		if testSupport(p.path) {
			continue
		}
		for _, imp := range p.imports {
			if imp == "testing" || strings.HasPrefix(imp, "testing/") || imp == "net/http/httptest" ||
				strings.HasPrefix(imp, "./") && testSupport(imp) {
				found = append(found, finding{"test-imports", p.path, "shipped code imports " + imp,
					"Move it to a _test.go file, or to a package whose name ends in test"})
			}
		}
	}
	return found
}

var emptyNames = map[string]bool{"util": true, "utils": true, "common": true, "types": true, "helpers": true,
	"helper": true, "misc": true, "base": true}

func checkNames(packages []pkg) (found []finding) {
	for _, p := range packages {
		if emptyNames[p.name] {
			found = append(found, finding{"package-name", p.path, "the name " + p.name + " says nothing",
				"Name the package by the one thing that it provides, or move its parts to their users"})
		}
	}
	return found
}

func TestImportsGoDownTheLayers(t *testing.T) { report(t, checkDirection(load(t).packages)) }
func TestVendorSDKsHaveOneHome(t *testing.T)  { report(t, checkSDKs(load(t).packages)) }
func TestShippedCodeImportsNoTestingPackage(t *testing.T) {
	report(t, checkTestImports(load(t).packages))
}
func TestPackageNamesSaySomething(t *testing.T) { report(t, checkNames(load(t).packages)) }
