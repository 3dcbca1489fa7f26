import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { hasCode } from '../../core/errors/error.ts';
import { reservedDomains } from './cluster-hosts.ts';
import { ClusterOfRequest, hostWithoutPort } from './cluster-of-request.ts';

const baseDomain = 'kube-fed.svc.cluster.local';

function finder(local: string | undefined = 'home', base = baseDomain): ClusterOfRequest {
  return new ClusterOfRequest({
    baseDomain: base,
    localCluster: () => local,
    siteNames: () => ['lubeck.example'],
  });
}

const ask = (host: string | undefined, serverName?: string, pathCluster?: string): string =>
  finder().nameOf({ host, serverName, pathCluster });

const isUnknown = (error: unknown): boolean => hasCode(error, 'HANSA_UNKNOWN_CLUSTER');
const isConflict = (error: unknown): boolean => hasCode(error, 'HANSA_BAD_REQUEST');

suite('the cluster of a request by host', () => {
  const named: readonly (readonly [host: string, cluster: string])[] = [
    ['api.app1.kube-fed.svc.cluster.local', 'app1'],
    ['api.app1.kube-fed.svc', 'app1'],
    ['api.app1.kube-fed.svc.cluster.local:6443', 'app1'],
    ['api.app1.kube-fed.svc.cluster.local.', 'app1'],
    ['api.app1.kube-fed.svc.cluster.local.:443', 'app1'],
    ['API.App1.Kube-Fed.SVC.cluster.LOCAL', 'app1'],
    ['api.kube-fed.svc.cluster.local', 'home'],
    ['api.kube-fed.svc:443', 'home'],
    ['api.kube-fed.kube-fed.svc', 'kube-fed'],
    ['api.svc.kube-fed.svc', 'svc'],
  ];
  for (const [host, cluster] of named) {
    test(`${host} means ${cluster}`, () => assert.equal(ask(host), cluster));
  }

  const unknown = [
    undefined,
    '',
    '.',
    ':443',
    'localhost',
    '127.0.0.1:6443',
    '[::1]:6443',
    'lubeck.example',
    'kube-fed.svc.cluster.local',
    'kube-fed.svc',
    'app1.kube-fed.svc',
    'apiapp1.kube-fed.svc',
    'api.xkube-fed.svc',
    'api..kube-fed.svc',
    'api.-.kube-fed.svc',
    'api.a_b.kube-fed.svc',
    'api.a.b.kube-fed.svc',
    'api.api.app1.kube-fed.svc',
    'api.app1.kube-fed.svc..',
    'api.app1.kube-fed.svc:',
    'api.app1.kube-fed.svc:x',
    'api.app1.kube-fed.svc:123456',
    'api.app1.kube-fed.svc:1:2',
    'user@api.app1.kube-fed.svc',
    'api.app1.kube-fed.svc,api.app2.kube-fed.svc',
    ' api.app1.kube-fed.svc',
    'api.app1.kube-fed.svc.evil.example',
    `api.${'a'.repeat(64)}.kube-fed.svc`,
    `api.${'a.'.repeat(200)}kube-fed.svc`,
  ];
  for (const host of unknown) {
    test(`${JSON.stringify(host)?.slice(0, 60)} names no cluster`, () => {
      assert.throws(() => ask(host), isUnknown);
    });
  }

  test('is refused for the local host where no cluster is marked as local', () => {
    const without = new ClusterOfRequest({
      baseDomain,
      localCluster: () => undefined,
      siteNames: () => [],
    });
    assert.throws(
      () => without.nameOf({ host: 'api.kube-fed.svc', serverName: undefined }),
      isUnknown,
    );
  });

  test('has no short form where the base is not below cluster.local', () => {
    const other = finder('home', 'reviews.lubeck.example');
    const asked = (host: string) => other.nameOf({ host, serverName: undefined });
    assert.equal(asked('api.app1.reviews.lubeck.example'), 'app1');
    assert.throws(() => asked('api.app1.reviews'), isUnknown);
    assert.throws(() => asked('api.app1.kube-fed.svc'), isUnknown);
  });

  test('quotes at most a hundred characters of a hostile host', () => {
    assert.throws(
      () => ask('x'.repeat(5000)),
      (error) => error instanceof Error && error.message.length < 400,
    );
  });
});

suite('the cluster of a request by server name', () => {
  const sni = 'api.app1.kube-fed.svc.cluster.local';

  test('counts where the host is an address or another name of the site', () => {
    for (const host of ['10.0.0.5:6443', '[fd00::1]:6443', 'localhost:1', 'lubeck.example'])
      assert.equal(ask(host, sni), 'app1');
    assert.equal(ask('10.0.0.5', 'api.kube-fed.svc'), 'home');
  });

  test('agrees with a host that names the same cluster in another form', () => {
    assert.equal(ask('api.app1.kube-fed.svc', sni), 'app1');
    assert.equal(ask('api.home.kube-fed.svc', 'api.kube-fed.svc'), 'home');
  });

  test('is refused where the host names another cluster', () => {
    assert.throws(() => ask('api.app2.kube-fed.svc', sni), isConflict);
    assert.throws(() => ask('api.kube-fed.svc', sni), isConflict);
  });

  test('does not make an unknown host acceptable', () => {
    for (const host of [undefined, '', 'evil.example', 'app1.kube-fed.svc'])
      assert.throws(() => ask(host, sni), isUnknown);
  });

  test('means nothing where it names no cluster', () => {
    assert.equal(ask('api.app1.kube-fed.svc', 'localhost'), 'app1');
    assert.throws(() => ask('localhost', 'kube-fed.svc'), isUnknown);
    assert.equal(ask('api.app1.kube-fed.svc', 'x.api.app2.kube-fed.svc'), 'app1');
  });
});

suite('the cluster of a request by path', () => {
  test('counts with every host that names no cluster, or the same', () => {
    for (const host of ['localhost', '127.0.0.1:1', 'site.example', 'api.app1.kube-fed.svc'])
      assert.equal(ask(host, undefined, 'app1'), 'app1');
  });

  test('is refused where host or server name mean another cluster', () => {
    assert.throws(() => ask('api.app2.kube-fed.svc', undefined, 'app1'), isConflict);
    assert.throws(() => ask('api.kube-fed.svc', undefined, 'app1'), isConflict);
    assert.throws(() => ask('localhost', 'api.app2.kube-fed.svc', 'app1'), isConflict);
    assert.equal(ask('api.kube-fed.svc', undefined, 'home'), 'home');
  });

  test('is refused with a missing or malformed host', () => {
    for (const host of [undefined, '', 'a b', 'kube-fed.svc'])
      assert.throws(() => ask(host, undefined, 'app1'), isUnknown);
  });
});

test('a host names a cluster only if it is that of an endpoint, whatever a client sends', () => {
  const piece = fc.oneof(
    fc.constantFrom('api', 'app1', 'kube-fed', 'svc', 'cluster', 'local', '.', ':', '443', '[', ''),
    fc.string({ maxLength: 6 }),
  );
  const host = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));
  const dotted = fc.array(piece, { maxLength: 9 }).map((pieces) => pieces.join('.'));
  fc.assert(
    fc.property(fc.oneof(host, dotted), (text) => {
      let name: string;
      try {
        name = ask(text);
      } catch (error) {
        assert.ok(isUnknown(error));
        return;
      }
      const plain = text
        .toLowerCase()
        .replace(/:[0-9]{1,5}$/, '')
        .replace(/\.$/, '');
      const bases = ['kube-fed.svc.cluster.local', 'kube-fed.svc'];
      const legal = bases.flatMap((base) => [`api.${name}.${base}`, `api.${base}`]);
      assert.ok(legal.includes(plain), `${text} was taken for ${name}`);
    }),
    { numRuns: 2000 },
  );
});

test('a host without its port is in lower case and has no trailing dot', () => {
  assert.equal(hostWithoutPort('EXAMPLE.com.:80'), 'example.com');
  assert.equal(hostWithoutPort('[FD00::1]:80'), 'fd00::1');
  for (const bad of ['[fd00::1', '[1.2.3.4]', '[::1]x', 'a:b', '-a', 'a..b'])
    assert.equal(hostWithoutPort(bad), undefined);
});

test('the base domain and its short forms are reserved, without the domains above them', () => {
  assert.deepEqual(reservedDomains('kube-fed.svc.cluster.local'), [
    'kube-fed.svc.cluster.local',
    'kube-fed.svc',
    'kube-fed',
  ]);
  assert.deepEqual(reservedDomains('reviews.example'), ['reviews.example']);
  assert.deepEqual(reservedDomains('a.cluster.local'), ['a.cluster.local', 'a']);
  assert.deepEqual(reservedDomains('svc.cluster.local'), ['svc.cluster.local', 'svc']);
});
