// Package evalstream is a dataflow over NDJSON that evaluates models while
// they run. A [Pipeline] is a list of steps; each step makes a [Stage]; a [Job]
// moves records from a [Source] through the stages into a [Sink]:
//
//	parse → context-prefix → embed | classify | judge → rank → score → aggregate → (merge) → results
//	        stateless, parallel, order kept            keyed exchange │ stateful, one owner per partition
//
// The steps before the first stateful one run on every worker at once. What they
// make enters the stateful steps block by block in source order, so results do not
// depend on the number of workers or on how the input was cut into blocks.
//
// This package holds nouns and contracts only. Stages live in stages, bytes in
// codecs, files and topics in topics; they import this package and never each other.
package evalstream
