import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { systemRandom } from '../../core/clock/system.ts';
import { generateP256 } from '../../core/identity/x509/keys.ts';
import { type Joined, joinBySvid, renewSvid, type SvidCredential } from '../client/join-client.ts';
import { liveStream } from './second-process.ts';
import { ciToken, joinSite, putObject, runner, type TestJoinSite } from './test-join-site.ts';

interface Held {
  readonly joined: Joined;
  readonly proof: SvidCredential;
}

const serialOf = ({ proof }: Held): string => proof.chain[0]?.serialHex ?? '';

suite('a copy of the folder of a connected agent', () => {
  let site: TestJoinSite;
  let names = 0;

  before(async () => {
    site = await joinSite();
    await site.createToken('ci-runners', ciToken);
  });
  after(() => site.stop());

  const parts = async () => ({
    server: { url: site.url, bundle: site.authority.bundle },
    clock: site.clock,
    random: systemRandom,
    key: await generateP256(systemRandom),
  });
  const renew = async ({ joined, proof }: Held, by?: Awaited<ReturnType<typeof parts>>) => {
    const next = by ?? (await parts());
    const renewed = await renewSvid(next, joined, proof);
    return { joined: renewed, proof: { chain: renewed.chain, key: next.key } };
  };
  /** As the replica that serves the agent does. */
  const renewReplica = () =>
    putObject(site.store, 'trust.agent-replicas', { aliveAtMs: site.clock.now() }, 'one');
  const connect = async (name: string, held: Held): Promise<void> => {
    const stream = { serial: serialOf(held), address: '192.0.2.7', replica: 'one' };
    const holder = { ...stream, sinceMs: site.clock.now() };
    await putObject(site.store, 'trust.agent-sessions', { holder }, name);
  };
  /** An agent that is connected with its first SVID. */
  const connected = async () => {
    const name = `crane-${++names}`;
    const first = await parts();
    const wish = { token: 'ci-runners', role: 'agent', name };
    const joined = await joinBySvid(first, wish, { chain: [runner.certificate], key: runner.key });
    const held = { joined, proof: { chain: joined.chain, key: first.key } };
    await connect(name, held);
    return { name, held, member: () => site.members.get(`agent/${name}`)?.member };
  };
  /** Commits are written in order: a mark that the site did not wait for is written before this one. */
  const written = () => putObject(site.store, 'test.turns', { metadata: { name: 'turn' } });
  const wait = async (ms: number): Promise<void> => {
    await site.pass(ms);
    await renewReplica();
  };
  const rejected = {
    code: 'HANSA_FORBIDDEN',
    message: /^The site at \S+ says: The join is rejected\. /,
  };

  test('that renews makes the agent conflicted when the connected process renews, too', async () => {
    const { name, held, member } = await connected();
    const stolen = await renew(held);
    await wait(90_000);
    await assert.rejects(renew(held), rejected);
    await written();
    assert.match(member()?.conflict ?? '', /another process has renewed the SVID .* 192\.0\.2\.7/);
    const row = site.records.findLast(({ verb }) => verb === 'agent.conflict');
    assert.deepEqual([row?.name, row?.outcome], [name, 'deny']);
    await assert.rejects(renew(stolen), { code: 'HANSA_UNAVAILABLE', message: /reinstate/ });
  });

  test('cannot renew twice while the agent is connected with the SVID before', async () => {
    const { name, held, member } = await connected();
    const stolen = await renew(held);
    await assert.rejects(renew(stolen), {
      code: 'HANSA_UNAVAILABLE',
      message: /has renewed its SVID, but is still connected with the one before/,
    });
    assert.equal(member()?.generation, 2);
    // A process that is gone, or that reconnected with the newest SVID, prevents nothing.
    await site.pass(61_000);
    const next = await renew(stolen);
    await connect(name, next);
    assert.equal((await renew(next)).joined.generation, 4n);
  });

  test('that is older than the SVID of the connected process has no effect on it', async () => {
    const { name, held, member } = await connected();
    const renewed = await renew(held);
    await connect(name, renewed);
    await wait(90_000);
    await assert.rejects(renew(held), rejected);
    await written();
    assert.equal(member()?.conflict, undefined);
    assert.equal((await renew(renewed)).joined.generation, 3n);
  });

  test('has no effect while the agent still reconnects after its own renewal', async () => {
    const { held, member } = await connected();
    await renew(held);
    await assert.rejects(renew(held), rejected);
    await written();
    assert.equal(member()?.conflict, undefined);
  });

  test('cannot pretend that the renewal was a moment ago by repeating it', async () => {
    const { held, member } = await connected();
    const by = await parts();
    await renew(held, by);
    await wait(90_000);
    await renew(held, by);
    await assert.rejects(renew(held), rejected);
    await written();
    assert.match(member()?.conflict ?? '', /another process/);
  });

  test('is not suspected where the stream is silent, or where there is none', async () => {
    const { name, held, member } = await connected();
    const kept = member();
    assert.ok(kept);
    const now = (): number => site.clock.now();
    assert.equal(liveStream(site.store, kept, now())?.serial, serialOf(held));
    assert.equal(liveStream(site.store, kept, now() + 60_000), undefined);
    assert.equal(liveStream(site.store, { ...kept, role: 'bot' }, now()), undefined);
    await site.store.commit({ delete: [{ collection: 'trust.agent-sessions', name }] });
    assert.equal(liveStream(site.store, kept, now()), undefined);
  });
});
