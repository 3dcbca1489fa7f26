// Fuzzes one target: first with its saved inputs, then with mutations of them. An input that causes
// a new result joins the pool for mutation, so the fuzzer reaches deeper code.

import { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { HansaError } from '../../src/core/errors/error.ts';
import { readCorpus } from './corpus.ts';
import { mutate } from './mutate.ts';
import type { Target } from './target.ts';

/** Work that no input may cost: hundreds of times what the largest good one does. */
const cpuMsPerInput = 500;
const maxPool = 2000;

export interface Finding {
  readonly input: Buffer;
  /** The corpus entry that it is, if it is one. */
  readonly kept?: string;
  readonly problem: string;
}

export interface Session {
  readonly inputs: number;
  /** Different ways in which the target answered. */
  readonly answers: number;
  readonly finding: Finding | undefined;
}

export interface SessionOptions {
  readonly seed: string;
  /** Is it over, after so many inputs? */
  readonly isOver: (inputs: number) => boolean;
  /** How much processor time one input may take. */
  readonly maxCpuMs?: number;
}

export async function fuzz(target: Target, options: SessionOptions): Promise<Session> {
  const { maxCpuMs = cpuMsPerInput } = options;
  const random = new SeededRandom(`${target.name}/${options.seed}`);
  const corpus = readCorpus(target.name);
  if (corpus.length === 0) throw new Error(`${target.name} has no corpus`);
  const pool = corpus.map(({ input }) => input);
  const answers = new Set<string>();
  let inputs = 0;
  const found = async (input: Buffer, kept?: string): Promise<Session> => {
    const small = kept === undefined ? await minimised(target, input) : input;
    const { problem = 'it did not happen again' } = await attempt(target, small, maxCpuMs);
    const finding = { input: small, problem, ...(kept === undefined ? {} : { kept }) };
    return { inputs, answers: answers.size, finding };
  };
  for (const { name, input } of corpus) {
    inputs++;
    const { problem, answer } = await attempt(target, input, maxCpuMs);
    if (problem !== undefined) return found(input, name);
    answers.add(answer);
  }
  while (!options.isOver(inputs)) {
    const input = mutate(target, random.pick(pool), pool, random);
    inputs++;
    const { problem, answer } = await attempt(target, input, maxCpuMs);
    if (problem !== undefined) return found(input);
    if (answers.has(answer)) continue;
    answers.add(answer);
    if (pool.length < maxPool) pool.push(input);
  }
  return { inputs, answers: answers.size, finding: undefined };
}

interface Attempt {
  /** What is wrong with the target; undefined where nothing is. */
  readonly problem?: string;
  /** How it answered, without what only repeats the input. */
  readonly answer: string;
}

async function attempt(target: Target, input: Buffer, maxCpuMs: number): Promise<Attempt> {
  const started = performance.now();
  const first = await answerOf(target, input);
  if (first.problem !== undefined || performance.now() - started < maxCpuMs) return first;
  // Perhaps the machine was busy: the least of three counts, and only our own time.
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 3; round++) {
    const before = process.cpuUsage();
    await answerOf(target, input);
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  if (least < maxCpuMs) return first;
  return { ...first, problem: `it takes more than ${maxCpuMs} ms of processor time` };
}

async function answerOf(target: Target, input: Buffer): Promise<Attempt> {
  try {
    const running = target.run(input);
    if (running !== undefined) await running;
    return { answer: 'read' };
  } catch (caught) {
    if (caught instanceof HansaError && caught.code !== 'HANSA_INTERNAL') {
      return { answer: `${caught.code} ${withoutValues(caught.message)}` };
    }
    const problem = caught instanceof Error ? (caught.stack ?? caught.message) : String(caught);
    return { problem, answer: 'broken' };
  }
}

function withoutValues(message: string): string {
  return message
    .slice(0, 300)
    .replaceAll(/"(?:[^"\\]|\\.)*"?/g, '…')
    .replaceAll(/spiffe:\/\/\S+/g, '…')
    .replaceAll(/[0-9]+/g, '0');
}

/** A smaller input that breaks the target in the same place. */
async function minimised(target: Target, input: Buffer): Promise<Buffer> {
  const place = placeOf((await answerOf(target, input)).problem);
  // Of what only takes too long, every try would.
  if (place === undefined) return input;
  let best = input;
  let tries = 0;
  for (let size = Math.ceil(input.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < best.length && tries < 5000; tries++) {
      const smaller = Buffer.concat([best.subarray(0, at), best.subarray(at + size)]);
      const { problem } = await answerOf(target, smaller);
      if (placeOf(problem) === place) best = smaller;
      else at += size;
    }
  }
  return best;
}

/** The kind of error and where it was thrown. */
function placeOf(problem: string | undefined): string | undefined {
  if (problem === undefined) return undefined;
  const [first = '', ...frames] = problem.split('\n');
  const frame = frames.find((line) => line.includes('/src/')) ?? '';
  return `${first.split(':')[0]} ${frame.trim()}`;
}
