// Package where is filters on rows: a small language of comparisons, their evaluation on arrow columns, and what
// the statistics of a file can rule out. A filter keeps exactly the rows for which it is true; statistics never
// rule out a row that is kept.
//
// The language is the part of SQL that statistics help with:
//
//	amount > 10.5 AND (country = 'DE' OR country IN ('AT', 'CH')) AND NOT _key IS NULL
//
// Comparisons are =, !=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL and IS NOT NULL, of one column with literals:
// numbers, 'text' (a quote is written twice), TRUE, FALSE. Times and dates are text: '2026-01-31T12:00:00Z',
// '2026-01-31'. Text is compared by its bytes, also with binary columns. Names that are no plain words stand in
// double quotes. As in SQL, a comparison with null is neither true nor false, and the row is not kept; a NaN is
// not equal to anything and not less or greater; NOT turns a comparison around, so that NOT x < 5 is x >= 5.
//
// A Filter and a Bound are immutable and safe for concurrent use. Errors of Parse and Bind name the place.
package where
