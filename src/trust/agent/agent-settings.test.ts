import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, suite, test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { type AgentFlags, agentSettings } from './agent-settings.ts';

const base = mkdtempSync(join(tmpdir(), 'hansa-agent-settings-'));
after(() => rmSync(base, { recursive: true, force: true }));
let count = 0;
let file: string;
beforeEach(() => {
  file = join(base, `${count++}.json`);
});

function start(flags: AgentFlags) {
  const { settings, store } = agentSettings(file, flags, '/srv');
  store();
  return settings;
}

suite('the settings of an agent', () => {
  test('keep no keys and serve no metrics by default', () => {
    assert.deepEqual(start({}), { keyFile: undefined, metricsAddress: undefined });
  });

  test('are remembered for the next start, with absolute paths', () => {
    start({ keyFile: 'keys/agent', metrics: '127.0.0.1:9465' });
    assert.deepEqual(start({}), {
      keyFile: '/srv/keys/agent',
      metricsAddress: { host: '127.0.0.1', port: 9465 },
    });
  });

  test('give way to the flags of a later start', () => {
    start({ keyFile: 'keys/agent', metrics: '127.0.0.1:9465' });
    const changed = { keyFile: undefined, metricsAddress: undefined };
    assert.deepEqual(start({ keyFile: 'off', metrics: 'off' }), changed);
    assert.deepEqual(start({}), changed);
  });

  test('are not remembered from a file that is damaged', () => {
    for (const text of ['', '[]', '{"metrics": 1, "keyFile": {}}']) {
      writeFileSync(file, text);
      assert.deepEqual(start({}), { keyFile: undefined, metricsAddress: undefined });
    }
  });

  test('are not read from a file that another user can write to or owns', () => {
    start({});
    chmodSync(file, 0o666);
    assert.throws(
      () => start({}),
      (error) => hasCode(error, 'HANSA_CONFIG_INVALID'),
    );
    if (process.getuid?.() !== 0) return;
    chmodSync(file, 0o644);
    chownSync(file, 65_534, 65_534);
    assert.throws(
      () => start({}),
      (error) => hasCode(error, 'HANSA_CONFIG_INVALID'),
    );
  });

  for (const metrics of ['9465', 'localhost:99999', ':9465', 'on']) {
    test(`refuse ${metrics} as an address`, () => {
      assert.throws(
        () => start({ metrics }),
        (error: unknown) =>
          hasCode(error, 'HANSA_USAGE') &&
          /--metrics is .*, but must be off or/.test(String(error)),
      );
    });
  }
});
