// Fuzzing: sends hostile inputs to every parser of untrusted data. The parser must accept or reject
// each input, with an error of its own and in bounded time.
//
// This folder contains the mutator (mutate*.ts), the loop (session.ts), the saved inputs (corpus/,
// corpus.ts) and the targets, one per parser (targets/). A target must not use the network, files
// or a clock.
//
//   make fuzz                                        every target, 10 seconds each
//   make fuzz TARGET=certificate SECONDS=600 SEED=7  one target, longer, reproducible
//
// An input that breaks its target is saved as corpus/TARGET/crash-…, and every later `make test`
// runs it.

/** The format of an input, so that mutations keep it well-formed. */
export type Grammar = 'bytes' | 'text' | 'json' | 'der' | 'protobuf' | 'jws';

export interface Target {
  /** Also the folder of its corpus. */
  readonly name: string;
  readonly grammar: Grammar;
  /** What the parser looks for; put in where chance would not find it. */
  readonly dictionary: readonly string[];
  /** Inputs are cut to this: a little beyond what the parser accepts, so that its limit is tried too. */
  readonly maxBytes: number;
  /** Returns, or throws a HansaError other than HANSA_INTERNAL: anything else is a finding. */
  readonly run: (input: Buffer) => void | Promise<void>;
}
