import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AgentContext, AgentPart } from '../../core/agent/agent-part.ts';
import { TestSite } from '../../core/agent/test-site.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { settle, VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { type Forged, forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { encodeSiteItem, siteCollection, siteName } from '../agents/site-item.ts';
import { JoinFolder } from '../client/join-folder.ts';
import { prepareAgentFolder } from './agent-folder.ts';
import { AgentProcess } from './agent-process.ts';

const base = mkdtempSync(join(tmpdir(), 'hansa-agent-process-'));
after(() => rmSync(base, { recursive: true, force: true }));

const lubeck = TrustDomain.parse('lubeck.example');
const id = SpiffeId.parse('spiffe://lubeck.example/hansa/agent/crane-1');
const root = forgeRoot('lubeck.example');
const leaf = forgeLeaf(root, id.toString());
let count = 0;

async function joined(path: string): Promise<JoinFolder> {
  const folder = new JoinFolder(path);
  await keepSvid(folder, leaf);
  return folder;
}

async function keepSvid(folder: JoinFolder, { certificate }: Forged): Promise<void> {
  await folder.nextKey(new SeededRandom('key'));
  folder.keep(
    {
      id,
      chain: [certificate],
      bundle: new Bundle(lubeck, [root.certificate]),
      instance: 'agent/crane-1',
      generation: 1n,
      notAfterMs: certificate.notAfterMs,
      reattestSeconds: 0,
    },
    new URL('https://lubeck.example:8443'),
  );
}

/** An agent with one part, at a site in memory. */
async function scene(
  options: { dataDir?: string; site?: TestSite; startMs?: number; cannotStart?: HansaError } = {},
) {
  const dataDir = options.dataDir ?? join(base, String(count++));
  const site = options.site ?? new TestSite();
  const clock = new VirtualClock(options.startMs);
  const folder = prepareAgentFolder(dataDir);
  const identity = existsSync(join(folder.identity, 'join.json'))
    ? new JoinFolder(folder.identity)
    : await joined(folder.identity);
  const events: string[] = [];
  const contexts: AgentContext[] = [];
  const part: AgentPart = {
    section: 'identities',
    problemOf: ({ value }) => (value.includes('broken') ? 'it is broken' : undefined),
    survives: ({ name }) => name === 'own',
    start: (context) => {
      contexts.push(context);
      events.push('start');
      if (options.cannotStart !== undefined) return Promise.reject(options.cannotStart);
      return Promise.resolve({
        report: () => ({ entries: 1, workloads: 2, problems: ['slow'] }),
        revoke: (isFinal) => {
          events.push(isFinal ? 'revoke for good' : 'revoke');
          return Promise.resolve();
        },
        stop: () => Promise.resolve(),
      });
    },
  };
  let renewal: HansaError | undefined;
  const agent = await AgentProcess.start({
    clock,
    random: new SeededRandom('agent'),
    log: silentLog,
    metrics: new MetricsRegistry(),
    version: '1',
    host: 'crane',
    folder,
    identity,
    server: undefined,
    connect: site.connect,
    renew: async () => {
      events.push('renew');
      if (renewal !== undefined) throw renewal;
      // The site accepts the new SVID.
      site.away = undefined;
    },
    parts: [part],
    sealer: undefined,
    problems: [],
  });
  const over = new AbortController();
  const ran = agent.link.run(over.signal).catch((error: unknown) => error);
  const names = (): readonly string[] =>
    contexts[0]?.store.list('things').entries.map(({ name }) => name) ?? [];
  /** Writes to the disk take real time. */
  const settled = async (): Promise<void> => {
    await clock.advance(0);
    await agent.written();
    await clock.advance(0);
  };
  return {
    agent,
    clock,
    site,
    events,
    identity,
    dataDir,
    names,
    settled,
    ran,
    context: () => contexts[0],
    renewalFails: (error: HansaError) => {
      renewal = error;
    },
    stop: async () => {
      over.abort(new Error('stopped'));
      await ran;
      await agent.stop();
    },
  };
}

const denial = (code: 'HANSA_UNAUTHENTICATED' | 'HANSA_FORBIDDEN'): HansaError =>
  new HansaError(code, 'Only agents of this site may call.');

suite('an agent', () => {
  test('starts its parts with the first state of the site, and follows it', async () => {
    const { site, agent, events, names, settled, stop } = await scene();
    site.set('web', '1');
    assert.deepEqual(events, []);
    assert.match(agent.health.problem() ?? '', /has not sent a state yet/);
    await settled();
    await agent.serving;
    assert.deepEqual(events, ['start']);
    assert.equal(agent.health.problem(), undefined);
    site.set('db', '1');
    site.push();
    await settled();
    assert.deepEqual(names(), ['db', 'web']);
    assert.deepEqual(agent.report(), { entries: 1, workloads: 2, problems: ['slow'] });
    await stop();
  });

  test('ends with the error where its parts cannot start, with a state of the site or from the cache', async () => {
    const cannotStart = new HansaError(
      'HANSA_CONFIG_INVALID',
      'The path of the socket is too long.',
    );
    const { site, agent, ran, settled } = await scene({ cannotStart });
    site.set('web', '1');
    await settled();
    assert.equal(await ran, cannotStart);
    assert.equal(agent.link.status.connected, false);
    assert.equal(site.open, undefined);
    assert.ok(!site.streams[0]?.sent.some((message) => message.case === 'acknowledge'));
    await agent.stop();
    const first = await scene();
    first.site.set('web', '1');
    await first.settled();
    await first.stop();
    await assert.rejects(scene({ dataDir: first.dataDir, cannotStart }), cannotStart);
  });

  test('reports a state that it can neither write nor remove', async () => {
    const { site, agent, dataDir, settled, stop } = await scene();
    const file = join(dataDir, 'secrets', 'agent-state');
    mkdirSync(join(file, 'x'), { recursive: true });
    site.set('web', '1');
    await settled();
    assert.match(agent.report().problems.join(), /cannot remove the older state in .*agent-state/);
    assert.match(agent.status().problems.join(), /cannot remove the older state/);
    await stop();
  });

  test('starts from its cache while the site is away, and says since when', async () => {
    const first = await scene();
    first.site.set('web', '1');
    await first.settled();
    const contactMs = first.clock.now();
    await first.stop();
    const site = new TestSite();
    site.away = new HansaError('HANSA_UNREACHABLE', 'Cannot connect.');
    const second = await scene({ dataDir: first.dataDir, site });
    assert.deepEqual(second.events, ['start']);
    assert.deepEqual(second.names(), ['web']);
    await second.clock.advance(10_000);
    assert.equal(second.context()?.offlineMs(), second.clock.now() - contactMs);
    assert.match(second.agent.report().problems.join(), /keys of workloads only in memory/);
    assert.equal(second.agent.status().connected, false);
    await second.stop();
  });

  test('counts the time without its site on when its clock is set back, and after restarts', async () => {
    const away = new HansaError('HANSA_UNREACHABLE', 'Cannot connect.');
    const first = await scene();
    first.site.set('web', '1');
    await first.settled();
    first.site.away = away;
    first.site.cut(away);
    await first.clock.advance(100_000);
    first.clock.jumpWall(-90_000);
    assert.equal(first.context()?.offlineMs(), 100_000);
    const stoppedMs = first.clock.now();
    await first.stop();
    const { site, dataDir } = first;
    const second = await scene({ dataDir, site, startMs: stoppedMs });
    await second.clock.advance(5_000);
    assert.equal(second.context()?.offlineMs(), 105_000);
    await second.stop();
    const third = await scene({ dataDir, site, startMs: stoppedMs - 3_600_000 });
    assert.equal(third.context()?.offlineMs(), Infinity);
    await third.stop();
    // Also when the clock is right again: the time in between was not counted.
    const fourth = await scene({ dataDir, site, startMs: stoppedMs });
    assert.equal(fourth.context()?.offlineMs(), Infinity);
    site.away = undefined;
    await fourth.clock.advance(31_000);
    await fourth.settled();
    assert.equal(fourth.context()?.offlineMs(), undefined);
    await fourth.stop();
  });

  test('knows the time of the last contact after a crash, and never assumes one', async () => {
    const first = await scene();
    first.site.set('web', '1');
    await first.settled();
    const contactMs = first.clock.now();
    // Without stopping: only what is on the disk counts.
    const site = new TestSite();
    site.away = new HansaError('HANSA_UNREACHABLE', 'Cannot connect.');
    const second = await scene({ dataDir: first.dataDir, site, startMs: contactMs + 50_000 });
    assert.equal(second.context()?.offlineMs(), 50_000);
    rmSync(join(first.dataDir, 'secrets', 'agent-contact.json'));
    const third = await scene({ dataDir: first.dataDir, site, startMs: contactMs });
    assert.equal(third.context()?.offlineMs(), Infinity);
    for (const one of [first, second, third]) await one.stop();
  });

  test('does not start from a cache with an item that its parts cannot use', async () => {
    const first = await scene();
    first.site.set('web', 'broken', 'overlay');
    await first.settled();
    await first.stop();
    // A later version of the agent knows the section.
    const second = await scene({ dataDir: first.dataDir });
    assert.deepEqual(second.names(), []);
    await second.stop();
    const third = await scene();
    third.site.set('web', 'broken');
    await third.settled();
    assert.match(third.site.refusals[0] ?? '', /things\/web: it is broken/);
    await third.stop();
  });

  test('stores a changed bundle of the site before it acknowledges the state, for the next connection', async () => {
    const { site, identity, settled, stop } = await scene();
    const next = forgeRoot('lubeck.example');
    const bundle = new Bundle(lubeck, [root.certificate, next.certificate]);
    const item = encodeSiteItem({ bundle, authorities: [] }, 60);
    site.setItem('identities', siteCollection, siteName, item);
    const stored: string[] = [];
    site.intercept = (message) => {
      if (message.case === 'acknowledge') stored.push(identity.read('bundle.pem'));
      return false;
    };
    await settled();
    assert.deepEqual(stored, [bundle.pem]);
    await stop();
  });

  test('that the site does not know ends, and its workloads lose everything', async () => {
    const { site, events, names, settled, ran, agent, clock, dataDir } = await scene();
    site.set('web', '1');
    await settled();
    site.away = denial('HANSA_UNAUTHENTICATED');
    site.cut(site.away);
    await clock.advance(0);
    const error = await ran;
    assert.ok(hasCode(error, 'HANSA_UNAUTHENTICATED'));
    assert.match(String(error), /lubeck\.example:8443\) no longer accepts spiffe:.*crane-1/);
    assert.match(String(error), /withdrew the SVIDs.*start with a new token/);
    assert.deepEqual(names(), []);
    assert.deepEqual(events, ['start', 'revoke for good']);
    assert.equal(existsSync(join(dataDir, 'secrets', 'agent-state')), false);
    await agent.stop();
  });

  test('that the site refuses gets a new SVID, and goes on without a loss', async () => {
    const { site, events, names, settled, agent, clock, stop } = await scene();
    site.set('web', '1');
    await settled();
    site.away = denial('HANSA_FORBIDDEN');
    site.cut(site.away);
    await clock.advance(2_000);
    await settled();
    assert.deepEqual(events, ['start', 'renew']);
    assert.deepEqual(names(), ['web']);
    assert.equal(agent.link.status.connected, true);
    await stop();
  });

  test('connects again where its folder has a newer SVID than its stream, and the site does not renew', async () => {
    const { site, identity, settled, agent, stop } = await scene();
    await settled();
    agent.renewalFailed();
    await settled();
    assert.equal(site.streams.length, 1);
    await keepSvid(identity, forgeLeaf(root, id.toString(), { serial: Buffer.of(9) }));
    agent.renewalFailed();
    await settled();
    assert.equal(site.streams.length, 2);
    assert.equal(agent.link.status.connected, true);
    await stop();
  });

  test('whose renewal is refused ends', async () => {
    const { site, events, settled, ran, agent, clock, renewalFails } = await scene();
    await settled();
    renewalFails(new HansaError('HANSA_FORBIDDEN', 'The site refuses the request.'));
    site.away = denial('HANSA_FORBIDDEN');
    site.cut(site.away);
    await clock.advance(0);
    assert.ok(hasCode(await ran, 'HANSA_FORBIDDEN'));
    assert.deepEqual(events, ['start', 'renew', 'revoke for good']);
    await agent.stop();
  });

  test('whose peer is suspended withdraws everything but the bundle of the site, and gets it back', async () => {
    const { site, events, names, settled, agent, clock, renewalFails, stop } = await scene();
    site.set('web', '1');
    site.set('own', '1');
    await settled();
    renewalFails(new HansaError('HANSA_UNAVAILABLE', 'Cannot renew: bruges.example is suspended.'));
    site.away = denial('HANSA_FORBIDDEN');
    site.cut(site.away);
    await clock.advance(0);
    // It removes a file meanwhile, which takes real time.
    while (agent.link.status.nextTryMs === undefined) await settle();
    assert.deepEqual(names(), ['own']);
    assert.ok(events.includes('revoke'));
    site.away = undefined;
    await clock.advance(31_000);
    await settled();
    assert.equal(agent.link.status.connected, true);
    assert.deepEqual(names(), ['own', 'web']);
    await stop();
  });

  test('keeps what it has where the site refuses it and then cannot be asked why', async () => {
    for (const code of ['HANSA_UNREACHABLE', 'HANSA_PEER_UNTRUSTED'] as const) {
      const { site, names, settled, clock, renewalFails, stop } = await scene();
      site.set('web', '1');
      await settled();
      renewalFails(new HansaError(code, 'Cannot renew.'));
      site.away = denial('HANSA_FORBIDDEN');
      site.cut(site.away);
      await clock.advance(60_000);
      assert.deepEqual(names(), ['web']);
      await stop();
    }
  });
});
