// Package expr is the SQL of table rules: check constraints, column invariants, expressions of generated columns. An
// expression is parsed, bound to the columns of a schema, and evaluated row by row on their arrays.
//
// It is the part of Spark's SQL whose meaning depends on nothing but the row: literals, columns and fields of structs,
// AND OR NOT with three values, comparisons, <=>, IS [NOT] NULL, IN, BETWEEN, LIKE, CASE, arithmetic, CAST between plain
// types, and the functions that functions() lists. What it does not know is refused by name when the expression is parsed
// or bound, never guessed: a rule that is half understood is one that is not kept. Types follow Spark with ANSI rules (the
// default of Spark 4): sums of two int stay int, decimals are exact, and what Spark answers with an error, such as an
// overflow, a division by zero or a text that is no number, is an error of that row here. Times without a zone are UTC.
// NaN equals itself and is above all numbers.
//
// An Expr is immutable. A Bound is immutable too; an Evaluation of it is not safe for concurrent use.
package expr
