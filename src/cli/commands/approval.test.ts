import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { after, before, suite, test } from 'node:test';
import type { Approval } from '../../api/kinds/approval.ts';
import type { Resource } from '../../api/object.ts';
import { canonicalJson, hashOf } from '../../core/approvals/request-hash.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { Io } from '../../core/plane/command-kit.ts';
import { loadConfig } from '../../server/config/config.ts';
import { type RunningSite, startSite } from '../../server/site.ts';
import { allKinds, allPlanes } from '../../test-planes.ts';
import { runCli } from '../program.ts';
import { approvalStatus } from './approval-status.ts';
import { approvalText } from './approval-text.ts';

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

suite('hansa approval', () => {
  let folder: string;
  let site: RunningSite;

  async function hansa(args: readonly string[], stdin = ''): Promise<Run> {
    const stdout = new PassThrough();
    const stderr = new PassThrough();
    const never = new AbortController().signal;
    const io: Io = {
      stdout,
      stderr,
      stdin: Readable.from([stdin]),
      env: { HOME: join(folder, 'home') },
      cwd: folder,
      clock: systemClock,
      random: systemRandom,
      launcher: '/hansa',
      interruption: () => never,
    };
    const code = await runCli(args, io, { planes: allPlanes, version: 'test' });
    const text = (stream: PassThrough): string => stream.read()?.toString('utf8') ?? '';
    return { code, stdout: text(stdout), stderr: text(stderr) };
  }
  const local = (...args: string[]) => hansa([...args, '--data-dir', 'site']);
  const apply = (manifest: object) =>
    hansa(['apply', '-f', '-', '--data-dir', 'site'], JSON.stringify(manifest));
  /** With the token of ada. */
  const ada = (...args: string[]) =>
    hansa([
      ...args,
      '--site',
      site.endpoints.api ?? '',
      '--ca-file',
      'site/ca.pem',
      '--token-file',
      'ada.token',
    ]);
  const role = (name: string) => ({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Role',
    metadata: { name },
    spec: { rules: [{ kinds: ['Site'], verbs: ['get'] }] },
  });
  const nameIn = ({ code, stderr }: Run): string => {
    assert.equal(code, 7, stderr);
    assert.match(stderr, /HANSA_APPROVAL_REQUIRED/);
    return /hansa approval approve ([-a-z0-9]+)/.exec(stderr)?.[1] ?? '';
  };

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hansa-approval-'));
    const { config } = loadConfig({
      planes: [],
      flags: {
        dataDir: join(folder, 'site'),
        trustDomain: 'lubeck.example',
        api: '127.0.0.1:0',
        federation: '127.0.0.1:0',
        metrics: '127.0.0.1:0',
      },
      env: {},
      cwd: folder,
    });
    const log = createLog({
      clock: systemClock,
      sink: { write: () => true },
      level: 'error',
      format: 'json',
    });
    site = await startSite({
      config,
      kinds: allKinds,
      version: 'test',
      clock: systemClock,
      random: systemRandom,
      log,
      metrics: new MetricsRegistry(),
    });
    const token = await local('access', 'token', 'create', 'ada', '--role', 'approver');
    writeFileSync(join(folder, 'ada.token'), token.stdout, { mode: 0o600 });
    const policy = await apply({
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Site',
      metadata: { name: 'site' },
      spec: { approvals: { rules: [{ action: 'Role.create', mode: 'two-person' }] } },
    });
    assert.equal(policy.code, 0, policy.stderr);
  });
  after(async () => {
    await site.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('lists and shows a request, and the requester repeats the action after its approval', async () => {
    const name = nameIn(await apply(role('pilots')));
    const listed = await local('approval', 'list');
    assert.match(listed.stdout, new RegExp(`${name} +pending +Role.create +pilots +admin +in 3h`));
    assert.equal((await local('approval', 'list', '-o', 'name')).stdout, `${name}\n`);
    const shown = await local('approval', 'show', name);
    assert.match(shown.stdout, /request +create Role pilots/);
    assert.match(shown.stdout, /"verbs": \[\n +"get"/);
    const refused = await local('approval', 'approve', name, '--yes');
    assert.equal(refused.code, 7, refused.stderr);
    assert.match(refused.stderr, /admin requested it/);
    const approved = await ada('approval', 'approve', name, '--comment', 'fine', '--yes');
    assert.equal(approved.code, 0, approved.stderr);
    assert.match(approved.stdout, /is approved\. admin can now repeat the action, once/);
    assert.equal((await apply(role('pilots'))).code, 0);
    const all = await local('approval', 'list', '--all');
    assert.match(all.stdout, new RegExp(`${name} +spent`));
    assert.match((await local('approval', 'show', name)).stdout, /approved by token:ada: fine/);
  });

  test('rejects a request, once', async () => {
    const name = nameIn(await apply(role('smugglers')));
    const rejected = await ada('approval', 'reject', name, '--yes');
    assert.equal(rejected.stdout, `${name} is rejected.\n`);
    const again = await ada('approval', 'approve', name, '--yes');
    assert.equal(again.code, 7, again.stderr);
    assert.match(again.stderr, /already rejected/);
    assert.match((await local('approval', 'list')).stderr, /No request waits/);
  });

  test('says that an Approval does not exist', async () => {
    const { code } = await local('approval', 'show', 'nothing');
    assert.equal(code, 4);
  });
});

const change = canonicalJson({ spec: { note: 'a\u001b[2Jb' } });
const target = { kind: 'Role', name: 'pilots' };
const approval = {
  metadata: { name: 'x', creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: {
    action: 'Role.create',
    verb: 'create',
    mode: 'two-person',
    target,
    requester: { user: 'token:ci' },
    summary: 'create Role pilots',
    change,
    hash: hashOf({ action: 'Role.create', verb: 'create', target, requester: 'token:ci', change }),
    expiresAt: '2026-01-01T04:00:00Z',
  },
  status: { state: 'pending' },
} as unknown as Approval;
const nowMs = Date.parse('2026-01-01T01:00:00Z');

suite('the text of an Approval', () => {
  test('sends no control characters to the terminal', () => {
    const text = approvalText(approval, undefined, nowMs);
    assert.match(text, /expires +in 3h/);
    assert.ok(!text.includes('\u001b'));
  });

  test('says where the hash does not belong to the content', () => {
    const forged = { ...approval, spec: { ...approval.spec, change: '{' } };
    assert.match(approvalText(forged, undefined, nowMs), /does NOT match/);
    assert.doesNotMatch(approvalText(approval, undefined, nowMs), /NOT/);
  });
});

suite('the target of an Approval', () => {
  const live = {
    metadata: { name: 'pilots', uid: 'u', generation: 2, labels: { team: 'ops' } },
    spec: { note: 'before', kept: 1 },
  } as unknown as Resource;
  const update = {
    ...approval,
    spec: {
      ...approval.spec,
      verb: 'update',
      target: { ...target, uid: 'u', generation: 2 },
      change: canonicalJson({ spec: { note: 'after', kept: 1 }, metadata: { labels: {} } }),
    },
  };

  test('is shown with the fields that change', () => {
    assert.match(
      approvalText(update, { live }, nowMs),
      /changes +metadata\.labels\.team, spec\.note\n/,
    );
  });

  test('is shown as gone or changed, where the Approval can no longer be used', () => {
    assert.match(approvalText(update, { live: undefined }, nowMs), /no longer exists/);
    const other = { ...live, metadata: { ...live.metadata, uid: 'v' } };
    assert.match(approvalText(update, { live: other }, nowMs), /no longer exists/);
    const newer = { ...live, metadata: { ...live.metadata, generation: 3 } };
    assert.match(approvalText(update, { live: newer }, nowMs), /has changed since/);
    const spent = { ...update, status: { state: 'spent' as const } };
    assert.doesNotMatch(approvalText(spent, { live: newer }, nowMs), /has changed|changes/);
  });
});

suite('the status of Approvals', () => {
  const listing = (items: readonly unknown[]) => ({
    list: () => Promise.resolve({ items } as never),
  });

  test('counts requests and reviews that wait', async () => {
    const review = { ...approval, spec: { ...approval.spec, review: true } };
    const spent = { ...approval, status: { state: 'spent' } };
    const { fields, rows } = await approvalStatus(listing([approval, approval, review, spent]));
    assert.deepEqual(fields, { approvals: { pending: 2, reviews: 1 } });
    assert.deepEqual(rows, [['approvals', '2 pending, 1 to review (hansa approval list)']]);
  });

  test('is silent where the caller may not read them', async () => {
    const list = () => Promise.reject(new HansaError('HANSA_FORBIDDEN', 'no'));
    assert.deepEqual(await approvalStatus({ list }), { fields: {} });
  });
});
