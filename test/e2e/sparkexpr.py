"""What Spark says of conditions, for internal/expr: sparkexpr.py > internal/expr/testdata/spark.json

Each condition is asked of each row: "true", "false", "null", or "error" where Spark (with ANSI rules) refuses the row."""

import json
import os
import sys

os.environ["TZ"] = "UTC"

from sparksession import session

ROWS = """
  (0, 1, 5L, 1Y, float(1.5), 2.5D, 10.25BD, 'abc', true, X'616263', date'2020-02-29', timestamp'2020-02-29 12:34:56.789012', timestamp_ntz'2020-02-29 23:59:59.999999', named_struct('a', 1, 'b', named_struct('c', 'in')), 7),
  (1, -1, -5L, -128Y, float('NaN'), double('NaN'), -10.25BD, '', false, X'', date'1969-12-31', timestamp'1969-12-31 23:59:59.999999', timestamp_ntz'1969-12-31 00:00:00', named_struct('a', null, 'b', null), 0),
  (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
  (3, 2147483647, 9223372036854775807L, 127Y, float('Infinity'), 1.0E300D, 99999999.99BD, 'ab%c_\\\\x', true, X'FF', date'9999-12-31', timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'9999-12-31 00:00:00', named_struct('a', 2147483647, 'b', named_struct('c', null)), -1),
  (4, -2147483648, -9223372036854775807L, 0Y, float(-0.0), -0.0D, 0.00BD, '  12 ', false, X'00', date'0001-01-01', timestamp'0001-01-01 00:00:00', timestamp_ntz'0001-01-01 00:00:00', named_struct('a', 0, 'b', named_struct('c', '')), 1000),
  (5, 12, 12L, 12Y, float(12), 12D, 12.00BD, '12', true, X'3132', date'2012-12-12', timestamp'2012-12-12 12:12:12', timestamp_ntz'2012-12-12 12:12:12', named_struct('a', 12, 'b', named_struct('c', '12')), 12),
  (6, 0, 0L, 0Y, float(0.1), 0.1D, 0.10BD, 'Stra\u00dfe \U0001f600', null, null, date'1582-10-15', timestamp'1582-10-15 00:00:00', null, named_struct('a', 3, 'b', named_struct('c', 'x')), 5)
"""
NAMES = "id, i, l, y, f, d, n, s, b, x, day, t, z, st, `odd name`"

CONDITIONS = """
i > 0 | i >= 1 | i < 0 | i <= -1 | i = 12 | i == 12 | i != 12 | i <> 12 | i <=> null | i <=> 12 | NOT i > 0 | ! i > 0
b | NOT b | b = true | b IS TRUE | b IS NOT TRUE | b IS FALSE | b IS UNKNOWN | b <=> false | b AND i > 0 | b OR i > 0 | NOT (b AND i > 0) | b > false
i IS NULL | i IS NOT NULL | i > 0 OR i IS NULL | i > 0 AND null | i > 0 OR null | null | true | false | isnull(i) | isnotnull(i)
i = l | i < l | y = i | y < l | f = d | f > d | f = i | d = l | n = i | n > l | n = d | n = f | l = 12 | l > 2147483647 | i > 2147483648 | y > 200 | y = 12S
f = 0.1 | d = 0.1 | d = 0.1D | n = 0.1 | n = 0.10 | n = 0.100 | n > 10.249 | n >= 1e1 | f = 'NaN' | d > 1e299 | d < 0.0 | d = 0 | f = 0 | isnan(d) | isnan(f)
i IN (1, 2, 12) | i NOT IN (1, 2, 12) | i IN (1, null) | i NOT IN (1, null) | s IN ('abc', '12') | n IN (12, 10.25) | i IN (l, y) | l IN (5, 12)
i BETWEEN 0 AND 12 | i NOT BETWEEN 0 AND 12 | n BETWEEN -10.25 AND 12 | s BETWEEN 'a' AND 'b' | day BETWEEN '2000-01-01' AND '2020-12-31' | i BETWEEN null AND 5
s LIKE 'a%' | s LIKE '%c' | s LIKE '_b_' | s LIKE '%b%c%' | s NOT LIKE '%1%' | s LIKE '' | s LIKE '%' | s LIKE '%\\\\%%' | s LIKE '%\\\\_%' | s LIKE '%\\\\\\\\x' | s LIKE '%\u00df%' | s LIKE '% _'
s = 'abc' | s > 'ab' | s = '' | s < 'b' | s = "abc" | length(s) > 2 | length(s) = 8 | char_length(s) = 3 | trim(s) = '12' | ltrim(s) = '12 ' | rtrim(s) = '  12'
s || 'x' = 'abcx' | concat(s, 'y') = 'abcy' | concat(s, i) = '1212' | s || null IS NULL | substring(s, 2) = 'bc' | substring(s, 1, 2) = 'ab' | substring(s, -2) = 'bc' | substring(s, 0, 2) = 'ab' | substr(s, -5, 4) = 'a' | substring(s, 3, -1) = ''
startswith(s, 'a') | endswith(s, 'c') | contains(s, '%') | lower('ABC') = s | upper(s) = 'ABC'
i + 1 > 0 | i - 1 < 0 | i * 2 = 24 | i / 2 = 6 | i / 2 > 0.4 | i % 5 = 2 | i DIV 5 = 2 | -i = -12 | - i < 0 | +i > 0 | y + y > 0 | y * 1Y = 12 | l + 1 > 0 | l * 2 > 0 | l - 2 < 0 | abs(i) > 1 | abs(y) = 12 | abs(d) = 12 | abs(n) = 10.25
i / 0 > 1 | i % 0 = 0 | i DIV 0 = 1 | d / 0 > 1 | b OR i / 0 = 1 | i + null = 1 | i + l > 0 | i + y > 0 | f + 1 > 2 | d * 2 = 24 | d % 5 = 2 | f * f > 2 | f + d > 0 | 1 + 2 * 3 = 7 | (1 + 2) * 3 = 9 | 10 - 2 - 3 = 5 | 7 % 4 * 2 = 6 | i + 1 = 2 AND b
n + 1 > 11 | n * 2 = 24 | n * 2 = 24.00 | n - 0.25 = 10 | n + n = 24 | n * n > 100 | n % 5 = 2 | n + i > 0 | n * 1.5 = 18 | -n = -12 | n + d > 1 | n - i = 0
day = '2020-02-29' | day > date'2000-01-01' | day = DATE '2012-12-12' | year(day) = 2020 | month(day) = 12 | day(day) = 29 | dayofmonth(day) = 31 | quarter(day) = 4 | dayofyear(day) = 60 | year(t) = 2012 | month(t) = 2 | day(t) = 29 | hour(t) = 12 | minute(t) = 34 | second(t) = 56 | hour(t) = 23 | year(z) = 2020
CAST(t AS DATE) = day | CAST(t AS DATE) = '2020-02-29' | date(t) = day | to_date(t) = day | CAST(day AS TIMESTAMP) = t | t > day | z > day | t > '2000-01-01' | t > '2000-01-01 00:00:00' | t = '2020-02-29T12:34:56.789012Z' | t = timestamp'2012-12-12 12:12:12' | z = timestamp_ntz'2012-12-12 12:12:12' | t >= '2012-12-12 12:12:12+00:00' | CAST(z AS DATE) = day
date_trunc('DAY', t) = day | date_trunc('hour', t) = '2012-12-12 12:00:00' | date_trunc('month', t) = '2020-02-01' | date_trunc('YEAR', t) = '2012-01-01' | date_format(t, 'yyyy-MM') = '2020-02' | date_format(day, 'yyyy-MM-dd') = '2012-12-12' | date_format(t, 'yyyy-MM-dd-HH') = '2012-12-12-12'
CAST(i AS STRING) = '12' | CAST(s AS INT) = 12 | CAST(i AS BIGINT) = l | CAST(l AS INT) = 12 | CAST(i AS TINYINT) = 12 | CAST(d AS INT) = 2 | CAST(n AS INT) = 10 | CAST(n AS DECIMAL(10,1)) = 10.3 | CAST(n AS DECIMAL(10,1)) = -10.3 | CAST(i AS DECIMAL(5,2)) = 12 | CAST(n AS DOUBLE) = 10.25 | CAST(b AS INT) = 1 | CAST(b AS STRING) = 'true' | CAST(day AS STRING) = '2012-12-12' | CAST(t AS STRING) = '2012-12-12 12:12:12' | CAST(t AS STRING) = '2020-02-29 12:34:56.789012' | CAST(s AS DATE) IS NULL | CAST('2020-02-29' AS DATE) = day | CAST(i AS DOUBLE) / 5 = 2.4 | CAST(i AS FLOAT) = f | i::string = '12' | CAST(n AS STRING) = '12.00' | CAST(s AS DOUBLE) = 12 | CAST(s AS DECIMAL(4,1)) = 12
st.a > 0 | st.a IS NULL | st.b.c = 'in' | st.b.c IS NULL | ST.B.C = '12' | st IS NULL | st.b IS NULL | st.b IS NOT NULL | `odd name` > 0 | `ODD NAME` = 12 | I = 12
CASE WHEN i > 0 THEN s = 'abc' WHEN i < 0 THEN s = '' ELSE b END | CASE i WHEN 1 THEN true WHEN 12 THEN false END | CASE WHEN b THEN i ELSE l END = 12 | if(b, i, 0) = 12 | if(b, i, l) > 0 | coalesce(i, 0) = 0 | coalesce(i, l, 5) = 5 | coalesce(s, 'none') = 'none' | nvl(i, 3) = 3 | ifnull(s, 'q') = 'q' | nullif(i, 12) IS NULL
x = X'616263' | x IS NULL | i = '12' | '12' = i | n = '10.25' | d > '2' | s = 12 | l > '5' | day > '1970-1-1' | i IN ('1', '12') | i BETWEEN '0' AND '12' | i IS DISTINCT FROM 12 | i IS NOT DISTINCT FROM null
i > 0 = true | NOT i IS NULL | i + 1 IS NULL | i > 0 AND i < 100 OR l < 0 | i < 100 AND (i > 0 OR l < 0) | s = 'a\\\\'b' | (i) > (0) | ((i > 0)) | i>0AND i<100 | -1 = i | - 1 = i | i = -2147483648 | l > -9223372036854775808L | 2147483648 = l | 1.5 < i | 1.5e0 < i | .5 < i | 5. < i | 1L = i | 12BD = n | 1.5F = f | 0.1F = f
"""


def main():
    spark = session()
    spark.sparkContext.setLogLevel("OFF")
    # Rows that stand in the query are answered while it is planned: no job, no waiting.
    spark.sql("SELECT * FROM VALUES %s AS r(%s)" % (ROWS, NAMES)).createOrReplaceTempView("rows")
    n = ROWS.strip().count("\n") + 1
    out = []
    for condition in (c.strip() for line in CONDITIONS.strip().splitlines() for c in line.replace("||", "\0").split(" | ")):
        condition = condition.replace("\0", "||")
        text = lambda v: "null" if v is None else str(bool(v)).lower()
        try:
            answers = [text(r[1]) for r in spark.sql("SELECT id, (%s)  FROM rows" % condition).collect()]
        except Exception as e:
            answers = []
            for i in range(n):
                try:
                    answers += [text(r[0]) for r in spark.sql("SELECT (%s) FROM rows WHERE id = %d" % (condition, i)).collect()]
                except Exception as e:
                    answers.append("error")
                    said = str(e).splitlines()[0][:100]
            print("%s: %s" % (condition, said), file=sys.stderr)
        out.append({"condition": condition, "answers": answers})
    print("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]")


if __name__ == "__main__":
    main()
