// `make demo DEMO=site`: one site, from an empty folder to a verified audit log, step by step. The demo
// checks every line that it prints, and exits with 1 if one is false.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Daemon,
  execute,
  Follower,
  hansa,
  type Ran,
  repository,
  startDaemon,
  temporaryFolder,
} from './daemon.ts';
import { expect, findKubectl, refused, seconds, succeeds, tell, whyUntrue } from './narration.ts';

const keep = (process.env['KEEP'] ?? '') !== '';
const folder = keep ? join(repository, '.demo') : temporaryFolder();
if (keep) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
}
const dataDir = join(folder, 'lubeck');
const begun = performance.now();
/** The one that runs, to be stopped at the end. */
let site: Daemon | undefined;

const run = (...args: string[]): Promise<Ran> => hansa([...args, '--data-dir', dataDir]);

const manifest = (name: string, verbs: string): string =>
  JSON.stringify({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Role',
    metadata: { name },
    spec: { rules: [{ kinds: ['Site'], verbs: [verbs] }] },
  });

const apply = (text: string, ...flags: string[]): Promise<Ran> =>
  hansa(['apply', '-f', '-', '--data-dir', dataDir, ...flags], { stdin: text });

async function tour(first: Daemon): Promise<void> {
  await tell('manifests are applied, twice', async () => {
    const files = ['-f', 'examples/site', '-f', 'examples/access'];
    const created = await succeeds(run('apply', ...files));
    const again = await succeeds(run('apply', ...files));
    const count = created.trim().split('\n').length;
    expect(again.split(' unchanged\n').length - 1 === count, again);
    return `${count} objects, then unchanged`;
  });

  await tell('a client watches while a role is changed', async () => {
    const watch = new Follower(['watch', 'roles', '--data-dir', dataDir]);
    await watch.until(/auditor/);
    await succeeds(apply(manifest('pilot', 'get')));
    await watch.until(/ADDED +role\.hansa\.dev\/pilot/);
    await succeeds(run('delete', 'role', 'pilot'));
    await watch.until(/DELETED +role\.hansa\.dev\/pilot/);
    await watch.interrupt();
    return 'ADDED and DELETED, in order';
  });

  await tell('two managers want different things of one field', async () => {
    await succeeds(apply(manifest('harbour', 'get'), '--field-manager', 'gitops'));
    await refused(apply(manifest('harbour', 'list')), 'HANSA_CONFLICT');
    return 'rejected: "gitops" owns it (HANSA_CONFLICT)';
  });

  await tell('a manifest with three mistakes', async () => {
    const text = await refused(run('apply', '-f', 'examples/bad'), 'HANSA_INVALID');
    const named = ['metadata.name', 'rules[0].kinds', 'rules[0].verbs'];
    expect(
      named.every((field) => text.includes(field)),
      text,
    );
    return 'rejected: each is named with its field (HANSA_INVALID)';
  });

  await stockKubectl();
  await access(first);
  await crash(first);
}

async function stockKubectl(): Promise<void> {
  const kubectl = await findKubectl();
  if (kubectl === undefined) {
    await tell(
      'the stock kubectl',
      async () => 'left out: there is none here (make test builds one)',
    );
    return;
  }
  const config = join(folder, 'kubeconfig');
  writeFileSync(config, await succeeds(run('kubeconfig')));
  const env = { KUBECONFIG: config, HOME: folder };
  await tell('the stock kubectl: get, explain, auth can-i', async () => {
    const sites = await succeeds(execute(kubectl, ['get', 'sites'], { env }));
    expect(/^site +lubeck\.example +True/m.test(sites), sites);
    const field = await succeeds(execute(kubectl, ['explain', 'role.spec.rules'], { env }));
    expect(field.includes('verbs'), field);
    const may = await succeeds(execute(kubectl, ['auth', 'can-i', 'delete', 'roles'], { env }));
    expect(may.trim() === 'yes', may);
    return 'works as with a cluster, without one';
  });
}

async function access({ endpoints }: Daemon): Promise<void> {
  const tokenFile = join(folder, 'token');
  const remote = (...args: string[]): Promise<Ran> =>
    hansa([
      ...args,
      '--site',
      endpoints.api,
      '--ca-file',
      join(dataDir, 'ca.pem'),
      '--token-file',
      tokenFile,
    ]);
  await tell('a token with the role viewer reads, over TLS', async () => {
    const token = await succeeds(run('access', 'token', 'create', 'demo', '--role', 'viewer'));
    writeFileSync(tokenFile, token, { mode: 0o600 });
    const names = await succeeds(remote('get', 'roles', '-o', 'name'));
    return `${names.trim().split('\n').length} roles`;
  });
  await tell('… and wants to delete, and to make itself admin', async () => {
    await refused(remote('delete', 'role', 'harbour'), 'HANSA_FORBIDDEN');
    const binding = join(folder, 'self-made.yaml');
    const subjects = [{ kind: 'Token', name: 'demo' }];
    writeFileSync(
      binding,
      JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'RoleBinding',
        metadata: { name: 'self-made' },
        spec: { role: 'admin', subjects },
      }),
    );
    await refused(remote('apply', '-f', binding), 'HANSA_FORBIDDEN');
    return 'rejected, twice (HANSA_FORBIDDEN)';
  });
  await tell('the token is revoked', async () => {
    await succeeds(run('access', 'revoke', 'demo', '--yes'));
    await refused(remote('get', 'roles'), 'HANSA_UNAUTHENTICATED');
    return 'rejected at once (HANSA_UNAUTHENTICATED)';
  });
}

async function crash(first: Daemon): Promise<void> {
  await tell('the daemon is killed (-9) in the middle of writes', async () => {
    const watch = new Follower(['watch', 'roles', '--data-dir', dataDir]);
    const writers = [0, 1].map((writer) => writeUntilKilled(writer));
    await watch.until(/cargo-\d-80$/);
    await first.signal('SIGKILL');
    await watch.interrupt();
    const acknowledged = (await Promise.all(writers)).flat();
    expect(acknowledged.length > 0, 'no write was acknowledged before the kill');
    site = await startDaemon(dataDir);
    const names = await succeeds(run('get', 'roles', '-o', 'name'));
    const there = new Set(names.trim().split('\n'));
    const lost = acknowledged.filter((name) => !there.has(name));
    expect(lost.length === 0, `lost: ${lost.join(', ')}`);
    return `${acknowledged.length} acknowledged, 0 lost, ready again in ${seconds(site.readyMs)}`;
  });
  await tell('the audit log', async () => {
    const text = await succeeds(run('audit', 'verify'));
    return `${/\d+ events/.exec(text)?.[0]} verified`;
  });
  await tell('… and a copy of it in which one word was changed', async () => {
    const copy = join(folder, 'audit.export');
    await succeeds(run('audit', 'export', '--file', copy));
    const text = readFileSync(copy, 'utf8');
    writeFileSync(copy, text.replace('"verb":"delete"', '"verb":"create"'));
    await refused(hansa(['audit', 'verify', copy]), 'HANSA_AUDIT_INVALID');
    return 'rejected (HANSA_AUDIT_INVALID)';
  });
}

/** Many objects in one go; a name is printed when the site has acknowledged it. */
async function writeUntilKilled(writer: number): Promise<string[]> {
  const cargo = Array.from({ length: 5000 }, (_, i) => manifest(`cargo-${writer}-${i}`, 'get'));
  const { code, stdout } = await apply(cargo.join('\n---\n'), '-o', 'name');
  expect(code !== 0, 'all writes were done before the kill');
  return stdout.split('\n').filter((name) => name !== '');
}

try {
  site = await startDaemon(dataDir);
  const { api, trustDomain } = site.endpoints;
  process.stdout.write(
    `lubeck  ready in ${seconds(site.readyMs)}  ${api}  trust domain ${trustDomain}\n`,
  );
  await tour(site);
  process.stdout.write(`done in ${seconds(performance.now() - begun)}.`);
  if (keep) {
    process.stdout.write(
      ` It runs until Ctrl-C. In another terminal:\n  ./hansa get roles --data-dir ${dataDir}\n  ./hansa kubeconfig --data-dir ${dataDir} > kubeconfig\n`,
    );
    await new Promise((resolve) => {
      process.once('SIGINT', resolve).once('SIGTERM', resolve);
    });
  } else {
    process.stdout.write(' Keep it running with make demo DEMO=site KEEP=1.\n');
  }
} catch (error) {
  process.exitCode = 1;
  process.stderr.write(whyUntrue(error));
} finally {
  await site?.signal('SIGTERM');
}
