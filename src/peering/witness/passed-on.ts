// Checkpoints of other logs that peers pass on to each other. A log that shows its peers different
// histories cannot prove that one checkpoint extends both. In memory: peers pass on checkpoints again.

import { parseCheckpoint, type SignedCheckpoint } from '../../core/audit/checkpoint.ts';
import { mostAsks, mostPassedOn, type LogPart } from './log-part.ts';
import { type Head, isExtension } from './judge.ts';
import { held as heldNotes } from './next-log.ts';
import type { WitnessedLogs } from './witnessed-logs.ts';

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

  /** The checkpoints for this receiver, in at most `maxBytes` of JSON. Takes turns if there are more than fit. */
  pick(
    receiver: string,
    logs: Pick<WitnessedLogs, 'count' | 'at'>,
    maxBytes: number,
  ): readonly SignedCheckpoint[] {
    const picked: SignedCheckpoint[] = [];
    const { count } = logs;
    let at = this.#turns.get(receiver) ?? 0;
    let bytes = 0;
    for (let looked = 0; looked < count && picked.length < mostPassedOn; looked++, at++) {
      const { name, value } = logs.at(at % count);
      const [note] = name === receiver ? [] : heldNotes(value);
      if (note === undefined) continue;
      // With its comma.
      bytes += Buffer.byteLength(JSON.stringify(note)) + 1;
      if (bytes > maxBytes) break;
      picked.push(parseCheckpoint(note));
    }
    this.#turns.set(receiver, count === 0 ? 0 : at % count);
    return picked;
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
