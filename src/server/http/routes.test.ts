import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { RouteTable } from './routes.ts';

const table = new RouteTable([
  { method: 'GET', path: '/peers' },
  { method: 'POST', path: '/peers' },
  { method: 'GET', path: '/peers/{name}' },
  { method: 'GET', path: '/peers/all' },
  { method: 'POST', path: '/peers/{name}/confirm' },
  { method: 'POST', path: '/peers/all/{step}' },
  { method: 'DELETE', path: '/peers/{name}/offers/{offer}' },
]);

function find(method: string, path: string): unknown {
  const found = table.find(method, path);
  return typeof found === 'object' ? [found.route.path, found.params] : found;
}

suite('a table of routes', () => {
  test('finds a path without parameters, and HEAD where there is GET', () => {
    assert.deepEqual(find('GET', '/peers'), ['/peers', {}]);
    assert.deepEqual(find('HEAD', '/peers'), ['/peers', {}]);
  });

  test('parses parameters by name, at the end and in the middle', () => {
    assert.deepEqual(find('GET', '/peers/a%20b'), ['/peers/{name}', { name: 'a b' }]);
    assert.deepEqual(find('POST', '/peers/x/confirm'), ['/peers/{name}/confirm', { name: 'x' }]);
    assert.deepEqual(find('DELETE', '/peers/x/offers/db%2Fa'), [
      '/peers/{name}/offers/{offer}',
      { name: 'x', offer: 'db/a' },
    ]);
  });

  test('prefers a literal segment, and takes a parameter where that leads nowhere', () => {
    assert.deepEqual(find('GET', '/peers/all'), ['/peers/all', {}]);
    assert.deepEqual(find('POST', '/peers/all/confirm'), [
      '/peers/all/{step}',
      { step: 'confirm' },
    ]);
    assert.deepEqual(find('DELETE', '/peers/all/offers/db'), [
      '/peers/{name}/offers/{offer}',
      { name: 'all', offer: 'db' },
    ]);
  });

  for (const path of [
    '',
    '/',
    '/nothing',
    '/peers/',
    '/peers//confirm',
    '/peers/x/',
    '/peers/x/other',
    '/peers/x/confirm/more',
    '/peers/%E0%A4%A',
    '/peers/{name}/x/y/z',
    'peers',
    'peers/x',
    'other/peers/x',
    '*/peers/x',
    'https://lubeck.example/peers/x',
    '//peers/x',
    '/./peers/x',
    '/peers/../peers/x',
    '/peers%2Fx',
    '/%70eers/x',
  ]) {
    test(`finds nothing under ${JSON.stringify(path)}`, () => {
      assert.equal(find('GET', path), undefined);
    });
  }

  test('tells a wrong method from a wrong path', () => {
    assert.equal(find('DELETE', '/peers'), 'method');
    assert.equal(find('PUT', '/peers/x'), 'method');
    assert.equal(find('BREW', '/peers/x/confirm'), 'method');
  });

  test('refuses two routes for one method and path, whatever their parameters are called', () => {
    for (const [one, other] of [
      ['/a', '/a'],
      ['/a/{x}', '/a/{y}'],
    ] as const) {
      assert.throws(
        () =>
          new RouteTable([
            { method: 'GET', path: one },
            { method: 'GET', path: other },
          ]),
        /two routes for GET/,
      );
    }
  });
});
