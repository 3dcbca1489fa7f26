// Checkpoints of other logs that peers pass on to each other. A log that shows its peers different
// histories cannot prove that one checkpoint extends both. In memory: peers pass on checkpoints again.

import type { SignedCheckpoint } from '../../core/audit/checkpoint.ts';
import { mostAsks, mostPassedOn, type LogPart } from './log-part.ts';
import { type Head, isExtension } from './judge.ts';

interface Question {
  readonly checkpoint: SignedCheckpoint;
  /** The peer that passed it on. */
  readonly from: string;
}

export type Settled =
  | { readonly kind: 'agrees'; readonly question: Question }
  | { readonly kind: 'contradicts'; readonly question: Question; readonly message: string };

export class PassedOn {
  /** By the name of the log's site. */
  readonly #questions = new Map<string, readonly Question[]>();
  readonly #turns = new Map<string, number>();

  /**
   * A verified checkpoint of the log of `name`, passed on by `from`. `agrees` and `contradicts` if it
   * settles at once. Otherwise the site asks the log for a proof.
   */
  offer(name: string, from: string, checkpoint: SignedCheckpoint, held: Head): Settled | undefined {
    const question = { checkpoint, from };
    if (checkpoint.size === held.size) {
      return checkpoint.rootHash.equals(held.rootHash)
        ? { kind: 'agrees', question }
        : split(question, `a log of ${held.size} events with other contents`);
    }
    const known = this.#questions.get(name) ?? [];
    if (known.some((one) => one.checkpoint.body === checkpoint.body)) return undefined;
    // The newest questions stay, at most one of each peer, so that one peer cannot displace those of others.
    const others = known.filter((one) => one.from !== from);
    this.#questions.set(name, [question, ...others].slice(0, mostAsks));
    return undefined;
  }

  asks(name: string): readonly number[] {
    const sizes = (this.#questions.get(name) ?? []).map(({ checkpoint }) => checkpoint.size);
    return [...new Set(sizes)];
  }

  /**
   * Compares open questions with a checkpoint of the log. `asked`: the sizes in the request that this
   * message answers; without it, only a proof settles a question.
   */
  settle(
    name: string,
    offered: SignedCheckpoint,
    proofs: LogPart['proofs'],
    asked: readonly number[] | undefined,
  ): readonly Settled[] {
    const settled: Settled[] = [];
    const open: Question[] = [];
    for (const question of this.#questions.get(name) ?? []) {
      const verdict = settleOne(question, offered, proofs, asked);
      if (verdict === undefined) open.push(question);
      else settled.push(verdict);
    }
    this.#questions.set(name, open);
    return settled;
  }

  /** The checkpoints for this receiver. Takes turns if there are more than fit. */
  pick(receiver: string, all: readonly SignedCheckpoint[]): readonly SignedCheckpoint[] {
    const turn = this.#turns.get(receiver) ?? 0;
    if (all.length <= mostPassedOn) return all;
    this.#turns.set(receiver, (turn + mostPassedOn) % all.length);
    return [...all, ...all].slice(turn, turn + mostPassedOn);
  }

  forget(name: string): void {
    this.#questions.delete(name);
    this.#turns.delete(name);
  }
}

function settleOne(
  question: Question,
  offered: SignedCheckpoint,
  proofs: LogPart['proofs'],
  asked: readonly number[] | undefined,
): Settled | undefined {
  const { checkpoint } = question;
  const { size } = checkpoint;
  const wasAsked = asked?.includes(size) === true;
  if (size > offered.size) {
    return wasAsked ? split(question, `a log of ${offered.size} events`) : undefined;
  }
  const proof = size === offered.size ? { hashes: [] } : proofs.find(({ from }) => from === size);
  if (proof === undefined && size > 0) {
    return wasAsked ? split(question, 'no proof that its log extends it') : undefined;
  }
  return isExtension(checkpoint, offered, proof?.hashes ?? [])
    ? { kind: 'agrees', question }
    : split(question, 'a log that does not extend it');
}

function split(question: Question, shown: string): Settled {
  const { checkpoint, from } = question;
  return {
    kind: 'contradicts',
    question,
    message: `The log showed ${from} a checkpoint of ${checkpoint.size} events, and this site ${shown}.`,
  };
}
