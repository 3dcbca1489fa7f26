import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { suite, test } from 'node:test';
import { Command } from 'commander';
import { createCli } from '../../cli/cli.ts';
import { readInvitation } from './invitation-input.ts';
import { processIo } from '../../cli/process-io.ts';
import { Interrupted, type Io } from '../../core/plane/command-kit.ts';
import { allPlanes } from '../../test-planes.ts';

const base = processIo();
const line = 'hansa1.eyJ1.c2Vj';

interface Screen {
  readonly io: Io;
  readonly shown: () => string;
}

function piped(text: string, more: Partial<Io> = {}): Screen {
  const stderr = new PassThrough();
  let shown = '';
  stderr.on('data', (piece: Buffer) => {
    shown += piece.toString('utf8');
  });
  const stdin = Readable.from([Buffer.from(text)]);
  return { io: { ...base, stdin, stderr, ...more }, shown: () => shown };
}

/** A terminal at which these keys are pressed once it asks. */
function typed(keys: string): Screen {
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const stderr = Object.assign(new PassThrough(), { isTTY: true });
  let shown = '';
  stderr.on('data', (piece: Buffer) => {
    if (shown === '') stdin.write(keys);
    shown += piece.toString('utf8');
  });
  return { io: { ...base, stdin, stderr }, shown: () => shown };
}

suite('the invitation for hansa peer accept', () => {
  test('is asked for at a terminal and not shown', async () => {
    const { io, shown } = typed(`${line}\r`);
    assert.deepEqual(await readInvitation(io, undefined), { line, usedStdin: false });
    assert.equal(shown(), 'Invitation (hidden): \n');
  });

  test('comes from standard input where that is no terminal', async () => {
    const { io, shown } = piped(`${line}\n`);
    assert.deepEqual(await readInvitation(io, undefined), { line, usedStdin: true });
    assert.equal(shown(), '');
  });

  test('comes from standard input where the argument is -', async () => {
    const { io } = piped(line);
    assert.equal((await readInvitation(io, '-')).line, line);
  });

  test('may be an argument, with a warning that others can see it', async () => {
    const { io, shown } = piped('');
    assert.deepEqual(await readInvitation(io, line), { line, usedStdin: false });
    assert.match(shown(), /^Warning: other users .* process list/);
    assert.ok(!shown().includes(line));
  });

  for (const [what, screen] of [
    ['an empty line', () => typed('\r')],
    ['Ctrl-D', () => typed('\u0004')],
    ['empty standard input', () => piped(' \n')],
    ['endless standard input', () => piped('x'.repeat(20_000))],
  ] as const) {
    test(`is refused as ${what}`, async () => {
      await assert.rejects(readInvitation(screen().io, undefined), { code: 'HANSA_USAGE' });
    });
  }

  test('is left with Ctrl-C', async () => {
    await assert.rejects(readInvitation(typed('\u0003').io, undefined), Interrupted);
  });
});

suite('a question after standard input was read', () => {
  const confirm = (io: Io): Promise<void> =>
    createCli(io, { planes: allPlanes, version: '1.2.3' }).confirm(
      new Command(),
      'Accept?',
      'terminal',
    );

  test('is asked at the terminal of the process', async () => {
    const input = new PassThrough();
    const output = new PassThrough();
    let closed = 0;
    output.once('data', () => input.write('y\r'));
    const close = (): void => {
      closed += 1;
    };
    await confirm(piped('', { openTerminal: () => ({ input, output, close }) }).io);
    assert.equal(closed, 1);
  });

  test('needs --yes where the process has no terminal', async () => {
    const { io } = piped('', { openTerminal: () => undefined });
    await assert.rejects(confirm(io), { code: 'HANSA_USAGE', message: /--yes/ });
  });

  test('is not asked there for a command that did not read it', async () => {
    const { io } = piped('', { openTerminal: () => assert.fail('it was opened') });
    const cli = createCli(io, { planes: allPlanes, version: '1.2.3' });
    await assert.rejects(cli.confirm(new Command(), 'Delete?'), { message: /--yes/ });
  });
});
