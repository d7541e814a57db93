package bench

import (
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The programs of the peers that are no daemons. Their own comments say what they do.
var (
	//go:embed peers/delta_rs_loop.py
	deltaRSLoop string
	//go:embed peers/spark_stream.py
	sparkStream string
)

// deltaRSSide is a loop in Python over delta-rs, as those write it who need no daemon. Its positions are those of the
// others, so it is watched as they are.
func deltaRSSide() (ingestSide, bool) {
	python, ok := pythonOf("venv")
	return ingestSide{
		name: "delta-rs loop", binary: python, create: createPlainTable, foreign: true, only: smokeDrains,
		args: func(w *ingestWork, load *topicLoad, table string) []string {
			ends, _ := json.Marshal(load.ends()) // a map of numbers
			return append([]string{"-c", deltaRSLoop, w.node.addr, load.topic, w.lake.url(table), ingestApp, strconv.Itoa(w.latency), string(ends)}, w.webFlag()...)
		},
	}, ok
}

// sideSpark is Spark among the sides.
const sideSpark = "Spark Structured Streaming"

// sparkSide is Spark Structured Streaming. It takes minutes, and comes when LEDGERLAKE_SPARK is 1; else it has no name. It keeps its positions
// in a checkpoint of its own, and ends when it has what was there at its start.
func sparkSide() (ingestSide, bool) {
	if os.Getenv("LEDGERLAKE_SPARK") != "1" {
		return ingestSide{}, false
	}
	home, there := installed("venv-spark", "lib", "python3*", "site-packages", "pyspark")
	kafka, withKafka := installed("sparkkafka-jars")
	delta, withDelta := installed("delta-jars")
	if !there || !withKafka || !withDelta {
		return ingestSide{name: sideSpark}, false
	}
	found, _ := filepath.Glob(home)
	python, _ := pythonOf("venv-spark")
	var jars []string
	for _, dir := range []string{delta, kafka} {
		more, _ := filepath.Glob(filepath.Join(dir, "*.jar"))
		jars = append(jars, more...)
	}
	return ingestSide{
		name: sideSpark, binary: filepath.Join(found[0], "bin", "spark-submit"), create: createPlainTable,
		foreign: true, ends: true, only: smokeDrains, env: []string{"PYSPARK_PYTHON=" + python, "SPARK_LOCAL_IP=127.0.0.1"},
		args: func(w *ingestWork, load *topicLoad, table string) []string {
			dir := w.lake.path(table)
			script := dir + ".py"
			_ = os.WriteFile(script, []byte(sparkStream), 0o644) // spark-submit names it when it is not there
			return append([]string{
				"--master", "local[*]", "--driver-memory", "2g", "--jars", strings.Join(jars, ","),
				"--conf", "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
				"--conf", "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
				"--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1",
				script, w.node.addr, load.topic, dir, dir + ".checkpoint",
			}, w.webFlag()...)
		},
	}, true
}

// smokeDrains keeps peers that only drain, and are slow, to such cases of the short run.
func smokeDrains(c ingestCase) bool { return c.smoke && c.rate == 0 }

func (w *ingestWork) webFlag() []string {
	if w.shape == "web" {
		return []string{"web"}
	}
	return nil
}
