// Tests signing over the admin socket with a grpc-go client, which verifies that each certificate
// is for the key that it sent.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { until } from '../e2e/until.ts';
import { startSite } from './site.ts';
import { missingTools, requireTool } from './tool.ts';

const skip = await missingTools('mint');

interface Answer {
  readonly issued: number;
}

describe('minting with grpc-go', { skip }, () => {
  test('signs by calls and by a stream, and records every SVID', async (t) => {
    const site = await startSite();
    t.after(() => site.stop());
    const mint = async (...more: readonly string[]): Promise<number> => {
      const { stdout } = await promisify(execFile)(await requireTool('mint'), [
        `-socket=${join(site.dataDir, 'admin.sock')}`,
        '-trust-domain=lubeck.example',
        '-seconds=0.5',
        ...more,
      ]);
      return (JSON.parse(stdout) as Answer).issued;
    };
    const byCalls = await mint('-callers=4');
    const byStream = await mint('-stream', '-callers=200');
    assert.ok(byCalls > 0 && byStream > 0, `${byCalls} and ${byStream} were issued`);
    const path = '/hansa/v1/audit/events?verb=svid.mint&limit=1';
    // Rows follow a little later.
    await until(async () => {
      const { text } = await site.client.send({ method: 'GET', path });
      return /spiffe:\/\/lubeck\.example\/mint\/\d+/.test(text);
    }, 'a record of it');
  });

  test('refuses what another trust domain is to sign', async (t) => {
    const site = await startSite();
    t.after(() => site.stop());
    const run = promisify(execFile)(await requireTool('mint'), [
      `-socket=${join(site.dataDir, 'admin.sock')}`,
      '-trust-domain=bruges.example',
      '-seconds=0.5',
      '-callers=1',
    ]);
    await assert.rejects(
      run,
      /InvalidArgument.*issues identities of the form spiffe:\/\/lubeck\.example/s,
    );
  });
});
