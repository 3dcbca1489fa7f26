// Parses the command blocks of a guide page. A `sh` block contains only commands. In a `console` block,
// each `$ ` starts a command, and the lines below it are its output. A word before the `$` names the
// operator who types it. Tests do not run other blocks.

import { spawnSync } from 'node:child_process';

export interface GuideCommand {
  /** `lubeck` for `lubeck$ …`; empty for a plain `$` and in blocks of `sh`. */
  readonly operator: string;
  readonly text: string;
  readonly expected: readonly string[];
  /** Where it stands on the page, from 1. */
  readonly line: number;
}

/** Languages of blocks that nobody types into a shell. */
const shown = new Set(['yaml', 'json', 'hcl', 'text', 'ini']);

export function commandsOf(page: string): GuideCommand[] {
  const commands: GuideCommand[] = [];
  const lines = page.split('\n');
  for (let at = 0; at < lines.length; at += 1) {
    const fence = /^(\s*)```(\S*)\s*$/.exec(lines[at] ?? '');
    if (fence === null) continue;
    const [, indent = '', language = ''] = fence;
    const end = lines.findIndex(
      (line, index) => index > at && line.trimEnd() === `${indent}\`\`\``,
    );
    if (end < 0) throw new Error(`the block of line ${at + 1} does not end`);
    const body = lines.slice(at + 1, end).map((line) => line.slice(indent.length));
    commands.push(...readBlock(language, body, at + 2));
    at = end;
  }
  return commands;
}

function readBlock(language: string, body: readonly string[], firstLine: number): GuideCommand[] {
  if (language === 'sh') return readScript(body, firstLine);
  if (language === 'console') return readConsole(body, firstLine);
  if (!shown.has(language)) {
    throw new Error(
      `the block of line ${firstLine - 1} is ${JSON.stringify(language)}: say sh, console, or one of ${[...shown].join(', ')}`,
    );
  }
  const typed = body.findIndex((line) => /^(?:[\w-]*\$ |\.\/hansa |hansa |kubectl )/.test(line));
  if (typed >= 0)
    throw new Error(`line ${firstLine + typed} is a command in a block that is not run`);
  return [];
}

function readScript(body: readonly string[], firstLine: number): GuideCommand[] {
  const commands: GuideCommand[] = [];
  let at = 0;
  while (at < body.length) {
    const { text, next } = takeCommand(body, at, '');
    if (text.trim() !== '' && !text.trim().startsWith('#')) {
      commands.push({ operator: '', text, expected: [], line: firstLine + at });
    }
    at = next;
  }
  return commands;
}

const prompt = /^([\w-]*)\$ /;

function readConsole(body: readonly string[], firstLine: number): GuideCommand[] {
  const commands: GuideCommand[] = [];
  let at = 0;
  while (at < body.length) {
    const found = prompt.exec(body[at] ?? '');
    if (found === null) throw new Error(`line ${firstLine + at} is the output of no command`);
    const { text, next } = takeCommand(body, at, found[0]);
    const rest = body.slice(next);
    const more = rest.findIndex((line) => prompt.test(line));
    const expected = more < 0 ? rest : rest.slice(0, more);
    commands.push({
      operator: found[1] ?? '',
      text,
      expected: expected.filter((line) => line.trim() !== ''),
      line: firstLine + at,
    });
    at = next + expected.length;
  }
  return commands;
}

/** As many lines as bash needs to see a whole command, the lines of a here-document included. */
function takeCommand(
  body: readonly string[],
  from: number,
  promptText: string,
): { readonly text: string; readonly next: number } {
  let text = (body[from] ?? '').slice(promptText.length);
  let next = from + 1;
  while (!isWhole(text)) {
    if (next >= body.length) throw new Error(`a command does not end: ${text}`);
    text += `\n${body[next] ?? ''}`;
    next += 1;
  }
  return { text, next };
}

function isWhole(text: string): boolean {
  if (text.endsWith('\\')) return false;
  const { status, stderr } = spawnSync('bash', ['-n'], { input: `${text}\n`, encoding: 'utf8' });
  // A here-document without its end is a warning only.
  return status === 0 && stderr === '';
}

/**
 * Whether a command printed what the page shows. The lines of the page appear in this order; others
 * may stand between them. Times, measured values and hashes are those of another day: they count as
 * equal. `…` stands for anything, and a line of `…` for any lines.
 */
export function missingLine(expected: readonly string[], printed: string): string | undefined {
  const lines = printed.split('\n').map(normalized);
  let at = 0;
  for (const line of expected) {
    if (line.trim() === '…') continue;
    const pattern = patternOf(line);
    const found = lines.findIndex((each, index) => index >= at && pattern.test(each));
    if (found < 0) return line;
    at = found + 1;
  }
  return undefined;
}

function patternOf(line: string): RegExp {
  const escaped = normalized(line)
    .split('…')
    .map((part) => part.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&'));
  return new RegExp(`^${escaped.join('.*')}$`);
}

function normalized(line: string): string {
  return (
    line
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
      .replaceAll(/\b(?:[0-9a-f]{2}:){3,}(?:[0-9a-f]{2}\b|…)/g, '<fingerprint>')
      .replaceAll(/\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b/g, '<hex>')
      .replaceAll(/\b(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+\b/g, '<duration>')
      // A measured value. Whole numbers count: they are results that a reader compares.
      .replaceAll(/(?<![\d.])\d+\.\d+(?![\d.])/g, '<number>')
      .replaceAll(/\s+/g, ' ')
      .trim()
  );
}
