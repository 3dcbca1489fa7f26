// Mistakes at the first start of `hansa agent run`, before it calls the site, and at `hansa agent status`.
// test/e2e/agent.test.ts runs agents against a site.

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { createCli } from '../../cli/cli.ts';
import { processIo } from '../../cli/process-io.ts';
import { allPlanes } from '../../test-planes.ts';
import { agentFolderAt, requireReadable } from '../agent/agent-folder.ts';
import { agentRunCommands } from './agent-run.ts';

const base = mkdtempSync(join(tmpdir(), 'hansa-agent-run-'));
after(() => rmSync(base, { recursive: true, force: true }));

/** Runs `hansa agent ARGS`, which must fail before it needs a site. */
async function run(dataDir: string, ...args: string[]): Promise<void> {
  const cli = createCli(processIo(), { planes: allPlanes, version: '1' });
  const kit = { ...cli, dataDir: () => ({ byFlag: true, path: () => dataDir }) };
  await agentRunCommands(kit).exitOverride().parseAsync(args, { from: 'user' });
}

const joining = (name: string): string[] =>
  `run --server https://127.0.0.1:1 --trust-domain lubeck.example --fingerprint x --token machines --secret-file none`
    .split(' ')
    .concat('--name', name);

function siteFolder(): string {
  const path = mkdtempSync(join(base, 'site-'));
  mkdirSync(join(path, 'secrets'));
  writeFileSync(join(path, 'secrets', 'store.db'), '');
  return path;
}

suite('hansa agent run', () => {
  for (const name of ['Crane-1', 'crane 1', '-crane', 'crane/1', '', 'x'.repeat(64)]) {
    test(`refuses the name ${JSON.stringify(name)} and says which names are valid`, async () => {
      await assert.rejects(run(join(base, 'new'), ...joining(name)), {
        code: 'HANSA_USAGE',
        message: /--name is .*, but must be at most 63 lower-case letters/,
      });
    });
  }

  test('refuses the name of the machine of the site', async () => {
    await assert.rejects(run(join(base, 'new'), ...joining('site')), {
      code: 'HANSA_USAGE',
      message: /machine of the site\. Choose another --name/,
    });
  });

  test('refuses a folder whose path is too long for a socket, before it joins', async () => {
    const path = join(base, 'x'.repeat(100));
    await assert.rejects(run(path, ...joining('crane-1')), {
      code: 'HANSA_USAGE',
      message: /--data-dir must be a folder whose sockets have paths of at most 107 bytes/,
    });
    assert.ok(!readdirSync(base).includes('x'.repeat(100)));
  });

  test('says that a folder belongs to a site, also without the options that join', async () => {
    await assert.rejects(run(siteFolder(), 'run'), {
      code: 'HANSA_CONFIG_INVALID',
      message: /is the data folder of a site/,
    });
  });

  test('names the options of the first start where the folder is new', async () => {
    await assert.rejects(run(join(base, 'new'), 'run'), {
      code: 'HANSA_USAGE',
      message: /For the first start, set --server, --trust-domain/,
    });
  });

  test('says whose the secrets are that it cannot read', {
    skip: process.getuid?.() !== 0 && 'needs root',
  }, () => {
    chmodSync(base, 0o711);
    const path = mkdtempSync(join(base, 'foreign-'));
    chmodSync(path, 0o711);
    mkdirSync(agentFolderAt(path).secrets, { mode: 0o700 });
    assert.doesNotThrow(() => requireReadable(path));
    process.seteuid?.(65_534);
    try {
      assert.throws(() => requireReadable(path), {
        code: 'HANSA_FORBIDDEN',
        message: /it belongs to user 0\. Run the command as that user/,
      });
    } finally {
      process.seteuid?.(0);
    }
  });
});

suite('hansa agent status', () => {
  test('names the command for a site where the folder is that of a site', async () => {
    await assert.rejects(run(siteFolder(), 'status'), {
      code: 'HANSA_NOT_FOUND',
      message: /is the data folder of a site\. For its state: hansa status --data-dir/,
    });
  });

  test('asks for another folder where no agent has run', async () => {
    await assert.rejects(run(join(base, 'new'), 'status'), {
      code: 'HANSA_NOT_FOUND',
      message: /No agent has run.*--data-dir/,
    });
  });
});
