// go-spiffe, the reference client, as a workload of a site: it fetches, watches across a renewal,
// uses mutual TLS as client and server, and handles denials.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { spiffeFederationKind } from '../../src/api/kinds/spiffe-federation.ts';
import { resources } from '../e2e/api-client.ts';
import { until } from '../e2e/until.ts';
import { missingTools } from './tool.ts';
import { startWorkloadSite, type WorkloadSite } from './workload-site.ts';

interface Context {
  readonly svids?: readonly {
    readonly id: string;
    readonly hint: string;
    readonly serial: string;
    readonly notAfter: string;
  }[];
  readonly bundles?: Readonly<Record<string, number>>;
  readonly error?: string;
}

const uid = process.getuid?.() ?? 0;
const skip = await missingTools('go-spiffe');
const notRoot = uid === 0 ? false : 'only root can run a workload as another user';
/** An SVID is dated back by a minute, so that one from a clock that was moved by less is good now. */
const ttlSeconds = 60;
const halfLifeMs = 31_000;

suite('go-spiffe as a workload', { skip }, () => {
  let lubeck: WorkloadSite;
  let bruges: WorkloadSite;
  let web: string;
  let db: string;
  let abroad: string;

  before(async () => {
    lubeck = await startWorkloadSite('lubeck.example');
    bruges = await startWorkloadSite('bruges.example');
    [web, db, abroad] = await Promise.all([
      lubeck.program('web', 'go-spiffe'),
      lubeck.program('db', 'go-spiffe'),
      bruges.program('web', 'go-spiffe'),
    ]);
    for (const [name, path] of [
      ['web', web],
      ['db', db],
    ] as const) {
      const answer = await lubeck.apply(workloadEntryKind, name, {
        spiffeID: `spiffe://lubeck.example/${name}`,
        selectors: [`unix:uid:${uid}`, `unix:path:${path}`],
        ttlSeconds,
      });
      assert.equal(answer.status, 201, answer.text);
    }
  });
  after(async () => {
    await lubeck.stop();
    await bruges.stop();
  });

  test('fetches its SVID and the bundles', async () => {
    const { code, lines, stderr } = await lubeck.run(web, 'fetch');
    assert.equal(code, 0, stderr);
    const { svids = [], bundles } = lines[0] as Context;
    assert.deepEqual(
      svids.map(({ id, hint }) => [id, hint]),
      [['spiffe://lubeck.example/web', 'web']],
    );
    assert.deepEqual(bundles, { 'lubeck.example': 1 });
    const alone = await lubeck.run(web, 'bundles');
    assert.deepEqual(alone.lines, [{ bundles: { 'lubeck.example': 1 } }]);
  });

  test('is pushed a new SVID at half of its life, with calls going on at both ends', async () => {
    const watch = lubeck.follow(web, 'watch');
    const first = await watch.next<Context>();
    const server = lubeck.follow(db, 'server', '127.0.0.1:0', 'spiffe://lubeck.example/web');
    const { address } = await server.next<{ readonly address: string }>();
    const call = () =>
      lubeck.run(web, 'client', `https://${address}/`, 'spiffe://lubeck.example/db', '3');
    const early = await call();
    assert.equal(early.code, 0, early.stderr);
    assert.deepEqual(early.lines[2], {
      status: 200,
      body: 'hello spiffe://lubeck.example/web',
      server: 'spiffe://lubeck.example/db',
    });
    lubeck.clock.move(halfLifeMs);
    const second = await watch.next<Context>();
    assert.equal(second.svids?.[0]?.id, 'spiffe://lubeck.example/web');
    assert.notEqual(second.svids[0].serial, first.svids?.[0]?.serial);
    assert.ok(second.svids[0].notAfter > (first.svids?.[0]?.notAfter ?? ''));
    const late = await call();
    assert.equal(late.code, 0, late.stderr);
    assert.equal(late.lines.length, 3);
  });

  test('refuses whom its server does not name', async () => {
    const server = lubeck.follow(db, 'server', '127.0.0.1:0', 'spiffe://lubeck.example/other');
    const { address } = await server.next<{ readonly address: string }>();
    const call = await lubeck.run(web, 'client', `https://${address}/`, 'lubeck.example');
    assert.equal(call.code, 1);
    assert.match(call.stderr, /bad certificate/);
  });

  test('calls across trust domains exactly while both sites federate, and its entry names the other', async () => {
    const entry = {
      spiffeID: 'spiffe://bruges.example/web',
      selectors: [`unix:path:${abroad}`],
      federatesWith: ['lubeck.example'],
    };
    assert.equal((await bruges.apply(workloadEntryKind, 'web', entry)).status, 201);
    const federatesWith = async (...names: readonly string[]): Promise<void> => {
      const answer = await lubeck.apply(workloadEntryKind, 'db', {
        spiffeID: 'spiffe://lubeck.example/db',
        selectors: [`unix:path:${db}`],
        federatesWith: names,
        ttlSeconds,
      });
      assert.equal(answer.status, 200, answer.text);
    };
    await federatesWith('*');
    const server = lubeck.follow(db, 'server', '127.0.0.1:0', 'bruges.example');
    const { address } = await server.next<{ readonly address: string }>();
    const call = () =>
      bruges.run(abroad, 'client', `https://${address}/`, 'spiffe://lubeck.example/db');
    assert.match((await call()).stderr, /no X.509 bundle for trust domain "lubeck.example"/);
    const watch = lubeck.follow(db, 'watch');
    /** It is told of its SVIDs as well, whenever they are renewed. */
    const isTold = async (...names: readonly string[]): Promise<void> => {
      for (;;) {
        const { bundles = {} } = await watch.next<Context>();
        if (Object.keys(bundles).toSorted().join() === names.join()) return;
      }
    };
    /** The server hears of it when the watch does, and may be a moment later. */
    const callsEndWith = (code: number): Promise<void> =>
      until(async () => (await call()).code === code, `calls end with ${code}`);
    await isTold('lubeck.example');
    await bruges.federateWith(lubeck);
    await lubeck.federateWith(bruges);
    await isTold('bruges.example', 'lubeck.example');
    await callsEndWith(0);
    const answered = await call();
    assert.deepEqual(answered.lines[0], {
      status: 200,
      body: 'hello spiffe://bruges.example/web',
      server: 'spiffe://lubeck.example/db',
    });
    // The site still federates; the workload does not any more, and then again.
    await federatesWith('reval.example');
    await isTold('lubeck.example');
    await callsEndWith(1);
    await federatesWith('bruges.example');
    await isTold('bruges.example', 'lubeck.example');
    await callsEndWith(0);
    await lubeck.delete(spiffeFederationKind.plural, 'bruges.example');
    await isTold('lubeck.example');
    await callsEndWith(1);
  });

  test('of another program gets nothing', async () => {
    const other = await lubeck.program('other', 'go-spiffe');
    const { code, stderr } = await lubeck.run(other, 'fetch');
    assert.equal(code, 1);
    assert.match(stderr, /PermissionDenied/);
  });

  test('of another user gets nothing', { skip: notRoot }, async () => {
    const as = ['--reuid=4242', '--regid=4242', '--clear-groups'];
    const { code, stderr } = await lubeck.run('setpriv', ...as, web, 'fetch');
    assert.equal(code, 1);
    assert.match(stderr, /PermissionDenied.*uid 4242, gid 4242/);
    await lubeck.apply(workloadEntryKind, 'guest', {
      spiffeID: 'spiffe://lubeck.example/guest',
      selectors: ['unix:uid:4242', 'unix:gid:4242'],
    });
    const granted = await lubeck.run('setpriv', ...as, web, 'fetch');
    assert.equal((granted.lines[0] as Context).svids?.[0]?.id, 'spiffe://lubeck.example/guest');
  });

  test('which mounts its own file over the path of another program gets nothing', {
    skip: notRoot,
  }, async (t) => {
    // In a mount namespace of its own, an impostor can have any path.
    const impostor = await lubeck.program('impostor', 'go-spiffe');
    const mounted = await lubeck.run(
      'unshare',
      '--mount',
      'sh',
      '-c',
      'mount --bind "$1" "$2" && exec "$2" fetch',
      'sh',
      impostor,
      web,
    );
    if (/unshare|mount:/.test(mounted.stderr)) {
      t.skip('no mount namespaces here');
      return;
    }
    assert.equal(mounted.code, 1);
    assert.match(mounted.stderr, /PermissionDenied.*executable unknown/);
  });

  test('cannot be given what is reserved or foreign', async () => {
    for (const [spiffeID, status] of [
      ['spiffe://lubeck.example/hansa/site', 403],
      ['spiffe://lubeck.example/hansa', 403],
      ['spiffe://bruges.example/web', 422],
    ] as const) {
      const answer = await lubeck.apply(workloadEntryKind, 'evil', {
        spiffeID,
        selectors: [`unix:path:${web}`],
      });
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.text, status === 403 ? /is reserved/ : /spec/);
    }
    const { lines } = await lubeck.run(web, 'fetch');
    assert.deepEqual(
      (lines[0] as Context).svids?.map(({ id }) => id),
      ['spiffe://lubeck.example/web'],
    );
  });

  test('shows in the status of its entry what it does not get, and why', async () => {
    await lubeck.apply(workloadEntryKind, 'lonely', {
      spiffeID: 'spiffe://lubeck.example/lonely',
      selectors: ['unix:uid:4243'],
      federatesWith: ['reval.example'],
    });
    let text = '';
    await until(async () => {
      ({ text } = await lubeck.admin.get(`${resources}/workloadentries/lonely`));
      return text.includes('"Withheld"');
    });
    assert.match(text, /reval\.example: this site has no SPIFFEFederation reval\.example/);
  });
});
