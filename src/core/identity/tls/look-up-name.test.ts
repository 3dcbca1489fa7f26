import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { suite, type TestContext, test } from 'node:test';
import { VirtualClock } from '../../clock/virtual.ts';
import { candidatesOf, hostsEntry, lookUpName, type NameSources } from './look-up-name.ts';

/** Of a name: addresses; `none` says that there is no such name; nothing at all never answers. */
type Zone = Readonly<Record<string, { readonly a?: string; readonly aaaa?: string } | 'none'>>;

const typeA = 1;
const typeAaaa = 28;

/** A name server that speaks as much of RFC 1035 as a test needs. */
async function nameServer(t: TestContext, zone: Zone) {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  t.after(() => socket.close());
  socket.on('message', (query, { port, address }) => {
    const { name, type, end } = questionOf(query);
    asked.push(name);
    const found = zone[name];
    if (found === undefined) return;
    const data =
      found === 'none'
        ? undefined
        : type === typeA
          ? found.a?.split('.').map(Number)
          : type === typeAaaa && found.aaaa !== undefined
            ? [...Buffer.from(found.aaaa, 'hex')]
            : undefined;
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE(found === 'none' ? 0x8183 : 0x8180, 2);
    head.writeUInt16BE(data === undefined ? 0 : 1, 6);
    head.fill(0, 8, 12);
    const answer =
      data === undefined
        ? Buffer.alloc(0)
        : Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length, ...data]);
    socket.send(Buffer.concat([head, query.subarray(12, end), answer]), port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  return { asked, server: `127.0.0.1:${socket.address().port}` };
}

function questionOf(query: Buffer) {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

const ip6 = '20010db8000000000000000000000001';

async function scene(
  t: TestContext,
  zone: Zone,
  files: { readonly hosts?: string; readonly resolvConf?: string } = {},
) {
  const clock = new VirtualClock();
  const { asked, server } = await nameServer(t, zone);
  const system: string[] = [];
  const sources: NameSources = {
    hosts: async () => files.hosts ?? '',
    resolvConf: async () => files.resolvConf ?? '',
    servers: [server],
    system: async (name) => {
      system.push(name);
      if (name === 'printer.local') return ['192.0.2.9'];
      throw Object.assign(new Error('unknown'), { code: 'ENOTFOUND' });
    },
  };
  return { clock, asked, system, lookUp: (name: string) => lookUpName(name, clock, sources) };
}

suite('a lookup', () => {
  test('is not held up by names whose name server is dead', async (t) => {
    const { clock, lookUp, system } = await scene(t, { 'bruges.example': { a: '192.0.2.7' } });
    let settled = 0;
    // getaddrinfo would do two of them, and then nothing for ten seconds.
    const dead = Array.from({ length: 8 }, (_, at) =>
      lookUp(`dead-${at}.example`).catch((error: NodeJS.ErrnoException) => {
        settled++;
        return error.code;
      }),
    );
    assert.deepEqual(await lookUp('bruges.example'), ['192.0.2.7']);
    assert.equal(settled, 0);
    await clock.advance(10_000);
    assert.deepEqual(new Set(await Promise.all(dead)), new Set(['EAI_AGAIN']));
    // Nor does any of them take a thread of getaddrinfo.
    assert.deepEqual(system, []);
  });

  test('finds both families, IPv6 first', async (t) => {
    const { lookUp } = await scene(t, { 'bruges.example': { a: '192.0.2.7', aaaa: ip6 } });
    assert.deepEqual(await lookUp('bruges.example'), ['2001:db8::1', '192.0.2.7']);
  });

  test('goes through the search domains, as far as the name does not exist', async (t) => {
    const { lookUp, asked } = await scene(
      t,
      { 'db.one.example': 'none', 'db.two.example': { a: '192.0.2.8' } },
      { resolvConf: 'search one.example two.example\noptions ndots:5\n' },
    );
    assert.deepEqual(await lookUp('db'), ['192.0.2.8']);
    assert.deepEqual([...new Set(asked)], ['db.one.example', 'db.two.example']);
  });

  test('asks getaddrinfo for a name that DNS does not know', async (t) => {
    const { lookUp, system } = await scene(t, {
      'printer.local': 'none',
      'nobody.example': 'none',
    });
    assert.deepEqual(await lookUp('printer.local'), ['192.0.2.9']);
    await assert.rejects(lookUp('nobody.example'), { code: 'ENOTFOUND' });
    assert.deepEqual(system, ['printer.local', 'nobody.example']);
  });

  test('takes the hosts file before DNS, and localhost from nowhere else', async (t) => {
    const hosts = '# of this machine\n192.0.2.1 Bruges.example bruges # old\n::1 ip6-localhost\n';
    const { lookUp, asked } = await scene(t, { 'bruges.example': { a: '192.0.2.7' } }, { hosts });
    assert.deepEqual(await lookUp('bruges.example'), ['192.0.2.1']);
    assert.deepEqual(await lookUp('bruges'), ['192.0.2.1']);
    assert.deepEqual(await lookUp('localhost'), ['::1', '127.0.0.1']);
    assert.deepEqual(await lookUp('db.localhost'), ['::1', '127.0.0.1']);
    assert.deepEqual(asked, []);
  });
});

suite('the files of a machine', () => {
  test('say which names are meant', () => {
    const conf = 'domain old.example\nsearch a.example. b.example # more\noptions rotate ndots:2\n';
    assert.deepEqual(candidatesOf('db', conf), ['db.a.example', 'db.b.example', 'db']);
    assert.deepEqual(candidatesOf('x.y.z', conf), ['x.y.z', 'x.y.z.a.example', 'x.y.z.b.example']);
    assert.deepEqual(candidatesOf('db.', conf), ['db']);
    assert.deepEqual(candidatesOf('db', ''), ['db']);
    assert.deepEqual(candidatesOf('db', 'options ndots:x\nsearch\n\u0000'), ['db']);
    assert.equal(candidatesOf('db', `search ${'a.example '.repeat(99)}`).length, 7);
  });

  test('name addresses, and nothing else counts', () => {
    const hosts = '127.0.0.1\tlocalhost\n::1 localhost\nnonsense db\n999.1.1.1 db\n#192.0.2.1 db\n';
    assert.deepEqual(hostsEntry(hosts, 'localhost'), ['127.0.0.1', '::1']);
    assert.deepEqual(hostsEntry(hosts, 'db'), []);
    assert.deepEqual(hostsEntry('192.0.2.1 db', 'DB.'), ['192.0.2.1']);
    assert.deepEqual(hostsEntry('192.0.2.1 dbx', 'db'), []);
  });
});
