// Prints findings, each with its remedy. A finding can contain text of a peer, so each stays on its line.

import { printable } from '../../core/command/columns.ts';
import type { Finding } from '../../core/plane/doctor.ts';
import { wrap } from '../commands/explain.ts';

const marks = {
  ok: ['green', '✓'],
  warning: ['yellow', '!'],
  problem: ['red', '✗'],
} as const;

export function renderFindings(
  findings: readonly Finding[],
  paint: (style: 'green' | 'yellow' | 'red', text: string) => string,
): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  return findings
    .flatMap(({ check, level, text, remedy }) => {
      const [style, mark] = marks[level];
      return [
        `${paint(style, mark)} ${check.padEnd(width)}  ${printable(text)}`,
        ...(remedy === undefined ? [] : wrap(printable(remedy), 2, 110)),
      ];
    })
    .join('\n');
}
