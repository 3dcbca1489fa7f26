import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { systemClock } from '../../core/clock/system.ts';
import { hasCode } from '../../core/errors/error.ts';
import { openConnection } from './connection.ts';

const stranger = 65_534;
const needsRoot = process.getuid?.() !== 0 && 'needs root';
const base = mkdtempSync(join(tmpdir(), 'hansa-owner-'));
chmodSync(base, 0o711);
const servers: Server[] = [];
after(() => {
  for (const server of servers) server.closeAllConnections();
  for (const server of servers) server.close();
  rmSync(base, { recursive: true, force: true });
});

/** A data folder whose admin socket a process of this user serves. The kernel notes the user at the call of listen. */
function siteOf(user: number, owner: number) {
  const dataDir = mkdtempSync(join(base, 'site-'));
  chmodSync(dataDir, 0o777);
  const bodies: string[] = [];
  let connections = 0;
  const server = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => bodies.push(chunk.toString()));
    request.on('end', () => response.end('{}'));
  });
  server.on('connection', () => (connections += 1));
  servers.push(server);
  const listening = new Promise<void>((resolve) => void server.once('listening', resolve));
  const before = process.geteuid?.() ?? 0;
  process.seteuid?.(user);
  try {
    server.listen(join(dataDir, 'admin.sock'));
  } finally {
    process.seteuid?.(before);
  }
  chownSync(dataDir, owner, owner);
  const send = async (): Promise<number | undefined> => {
    await listening;
    const channel = openConnection({ via: 'socket', dataDir }, systemClock);
    try {
      const answer = await channel.send({
        method: 'POST',
        path: '/secret',
        headers: {},
        body: Buffer.from('secret'),
        signal: undefined,
      });
      return answer.resume().statusCode;
    } finally {
      channel.close();
    }
  };
  return { send, bodies, connections: () => connections };
}

describe('the admin socket', () => {
  const own = process.geteuid?.() ?? 0;

  test('gets requests where this user listens', async () => {
    const site = siteOf(own, own);
    assert.equal(await site.send(), 200);
    assert.deepEqual(site.bodies, ['secret']);
  });

  test('gets requests of root where the owner of the data folder listens', {
    skip: needsRoot,
  }, async () => {
    assert.equal(await siteOf(stranger, stranger).send(), 200);
  });

  test('gets nothing where another user listens, and the error names that user', {
    skip: needsRoot,
  }, async () => {
    const site = siteOf(stranger, own);
    await assert.rejects(
      site.send(),
      (error) =>
        hasCode(error, 'HANSA_UNREACHABLE') &&
        /user 65534 listens there, and you are user 0\. Run the command as/.test(error.message),
    );
    assert.equal(site.connections(), 1);
    assert.deepEqual(site.bodies, []);
  });
});
