// Fuzzing: every parser of what others send is given inputs that nobody would send, and must read
// them or refuse them, in its own words and within a bound of work.
//
// Here live the mutator (mutate*.ts), the loop (session.ts), the kept inputs (corpus/, corpus.ts) and
// the targets, one a parser (targets/). No target may reach for the network, a file or a clock.
//
//   make fuzz                                        every target, 10 seconds each
//   make fuzz TARGET=certificate SECONDS=600 SEED=7  one, longer, and the same again
//
// An input that breaks its target is kept as corpus/TARGET/crash-…, and from then on tried by every
// `make test`.

/** What an input is made of, for mutations that keep it one. */
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
