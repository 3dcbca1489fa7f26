import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { VirtualClock } from '../clock/virtual.ts';
import { HansaError } from '../errors/error.ts';
import { createLog } from './json-log.ts';
import type { Log, LogLevel } from './log.ts';

function logTo(
  lines: string[],
  { level = 'info', format = 'json' }: { level?: LogLevel; format?: 'json' | 'text' } = {},
): Log {
  return createLog({
    sink: { write: (line: string) => lines.push(line) },
    clock: new VirtualClock(0),
    level,
    format,
  });
}

function one(write: (log: Log) => void, level: LogLevel = 'info'): Record<string, unknown> {
  const lines: string[] = [];
  write(logTo(lines, { level }));
  assert.equal(lines.length, 1);
  return JSON.parse(lines[0] as string) as Record<string, unknown>;
}

function text(write: (log: Log) => void): string {
  const lines: string[] = [];
  write(logTo(lines, { format: 'text' }));
  return lines.join('');
}

describe('the log', () => {
  test('writes one JSON object a line, with time, level, message and fields', () => {
    assert.deepEqual(
      one((log) => log.with({ component: 'store' }).info('opened', { revision: 7, path: '/data' })),
      {
        time: '1970-01-01T00:00:00.000Z',
        level: 'info',
        message: 'opened',
        component: 'store',
        revision: 7,
        path: '/data',
      },
    );
  });

  test('leaves out what is below its level', () => {
    const lines: string[] = [];
    const log = logTo(lines, { level: 'warn' });
    log.debug('a');
    log.info('b');
    log.warn('c');
    log.error('d');
    assert.deepEqual(
      lines.map((line) => (JSON.parse(line) as { message: string }).message),
      ['c', 'd'],
    );
  });

  test('does not let a field replace time, level or message', () => {
    const line = one((log) => log.info('true', { message: 'false', time: 'never', level: 'none' }));
    assert.equal(line['message'], 'true');
    assert.equal(line['field.message'], 'false');
    assert.equal(line['level'], 'info');
  });

  test('gives an error with its code and its chain of causes', () => {
    const root = Object.assign(new Error('no space left'), { code: 'ENOSPC' });
    const error = new HansaError('HANSA_STORE_FULL', 'Cannot write', { cause: root });
    assert.deepEqual(one((log) => log.error('failed', { error }))['error'], {
      code: 'HANSA_STORE_FULL',
      message: 'Cannot write',
      cause: { code: 'ENOSPC', message: 'no space left' },
    });
  });

  test('gives stacks at debug level only', () => {
    const line = one((log) => log.error('failed', { error: new Error('x') }), 'debug');
    assert.match((line['error'] as { stack: string }).stack, /json-log\.test/);
  });

  test('ends a chain of causes that goes in a circle', () => {
    const a = new Error('a');
    const b = new Error('b', { cause: a });
    a.cause = b;
    assert.ok(JSON.stringify(one((log) => log.error('failed', { error: a }))).length < 1000);
  });

  test('gives what an AggregateError holds', () => {
    const error = new AggregateError([new Error('one'), 'two'], 'both');
    assert.deepEqual(one((log) => log.error('failed', { error }))['error'], {
      name: 'AggregateError',
      message: 'both',
      errors: [{ message: 'one' }, 'two'],
    });
  });

  test('bounds and redacts what an AggregateError holds that is no error', () => {
    const error = new AggregateError(['x'.repeat(10_000), 'Bearer hunter2hunter2', { token: 'a' }]);
    const line = JSON.stringify(one((log) => log.error('failed', { error })));
    assert.ok(line.length < 4096);
    assert.ok(!line.includes('hunter2'));
    assert.ok(line.includes('"token":"[redacted]"'));
  });

  for (const key of [
    'token',
    'accessToken',
    'client_secret',
    'password',
    'Authorization',
    'set-cookie',
    'privateKey',
    'private_key',
    'apiKey',
  ]) {
    test(`redacts ${key}, also inside of objects`, () => {
      const line = one((log) => log.info('x', { [key]: 'hunter2', in: { [key]: ['hunter2'] } }));
      assert.ok(!JSON.stringify(line).includes('hunter2'));
      assert.equal(line[key], '[redacted]');
    });
  }

  test('keeps counts under a key that sounds like a secret', () => {
    assert.equal(one((log) => log.info('x', { tokens: 3 }))['tokens'], 3);
  });

  test('redacts private keys and bearer tokens wherever they stand', () => {
    const line = one((log) =>
      log.info('x', {
        body: '-----BEGIN PRIVATE KEY-----\nhunter2',
        header: 'Bearer hunter2hunter2',
        error: new Error('refused: Bearer hunter2hunter2'),
      }),
    );
    assert.ok(!JSON.stringify(line).includes('hunter2'));
  });

  test('tells of bytes only how many there are', () => {
    assert.equal(one((log) => log.info('x', { key: Buffer.from('hunter2') }))['key'], '[7 bytes]');
  });

  test('leaves the query out of a URL', () => {
    const url = new URL('https://lubeck.example/a?code=hunter2');
    assert.equal(one((log) => log.info('x', { url }))['url'], 'https://lubeck.example/a');
  });

  test('bounds long strings, deep objects, wide objects and circles', () => {
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    const line = one((log) =>
      log.info('m'.repeat(100_000), {
        long: 'x'.repeat(100_000),
        circle,
        wide: Array.from({ length: 100_000 }, (_, i) => ({ i })),
        more: Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`k${i}`, i])),
      }),
    );
    assert.ok(JSON.stringify(line).length < 20_000);
    assert.match(line['long'] as string, /… \(97952 more characters\)$/);
  });

  test('never throws, whatever it is given', () => {
    fc.assert(
      fc.property(fc.string(), fc.dictionary(fc.string(), fc.anything()), (message, fields) => {
        for (const format of ['json', 'text'] as const) {
          const lines: string[] = [];
          logTo(lines, { format }).info(message, fields);
          assert.equal(lines.length, 1);
          assert.equal((lines[0] as string).indexOf('\n'), (lines[0] as string).length - 1);
        }
      }),
    );
    const trap = {
      get bad(): string {
        throw new Error('trap');
      },
      big: 10n,
      at: new Date(Number.NaN),
      nan: Number.NaN,
    };
    assert.deepEqual(one((log) => log.info('x', { trap }))['trap'], {
      bad: '[unreadable]',
      big: '10',
      at: 'Invalid Date',
      nan: 'NaN',
    });
  });

  test('drops lines while its sink does not drain, and then says how many', () => {
    const lines: string[] = [];
    const sink = { writableLength: 0, write: (line: string) => lines.push(line) };
    const log = createLog({ sink, clock: new VirtualClock(0), level: 'info', format: 'json' });
    sink.writableLength = 100 * 1024 * 1024;
    log.info('lost');
    log.with({}).info('lost');
    sink.writableLength = 0;
    log.info('kept');
    const [dropped, kept] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.equal(dropped?.['dropped'], 2);
    assert.equal(kept?.['message'], 'kept');
  });
});

describe('the log as text', () => {
  test('is a line that a person reads', () => {
    const error = new HansaError('HANSA_STORE_FULL', 'Cannot write');
    assert.equal(
      text((log) =>
        log.with({ component: 'store' }).warn('cannot compact', { revision: 7, error }),
      ),
      '1970-01-01T00:00:00.000Z warn  store: cannot compact revision=7 error={"code":"HANSA_STORE_FULL","message":"Cannot write"}\n',
    );
  });

  test('quotes what would be read wrongly, and lets nothing break out of its line', () => {
    const line = text((log) =>
      log.info('a\nforged', { name: 'two words', evil: '\u001b[31m\n2026 info x', empty: '' }),
    );
    assert.equal(
      line,
      '1970-01-01T00:00:00.000Z info  a\\u000aforged name="two words" evil="\\u001b[31m\\n2026 info x" empty=""\n',
    );
  });
});
