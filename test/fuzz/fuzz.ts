// `make fuzz`: runs every target, or only TARGET, for SECONDS each. SEED repeats a run. It minimizes an
// input that breaks a target, saves it in the corpus, prints it and exits with 1.

import { targets } from './all-targets.ts';
import { keepInput } from './corpus.ts';
import { fuzz } from './session.ts';

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const seed = process.env['SEED'] || String(process.hrtime.bigint() % 1_000_000n);
const seconds = Number(process.env['SECONDS'] || 10);
const wanted = process.env['TARGET'] || undefined;
const chosen = targets.filter(({ name }) => wanted === undefined || name === wanted);
if (chosen.length === 0 || !(seconds > 0)) {
  say(`TARGET is one of ${targets.map(({ name }) => name).join(', ')}; SECONDS is a number`);
  process.exit(2);
}
say(`seed ${seed}, ${seconds} s for each of ${chosen.length} targets`);
for (const target of chosen) {
  const started = performance.now();
  const isOver = (): boolean => performance.now() - started > seconds * 1000;
  const { inputs, answers, finding } = await fuzz(target, { seed, isOver });
  const rate = Math.round(inputs / ((performance.now() - started) / 1000));
  say(
    `fuzz    ${finding === undefined ? '✓' : '✗'} ${target.name}: ${inputs} inputs (${rate}/s), ${answers} different answers`,
  );
  if (finding === undefined) continue;
  process.exitCode = 1;
  say(`        kept as ${finding.kept ?? keepInput(target.name, finding.input)}`);
  say(`        ${finding.problem.replaceAll('\n', '\n        ')}`);
}
