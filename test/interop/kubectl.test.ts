// Tests every verb of the stock kubectl against a site. Unless a test says otherwise, kubectl gets
// the same responses from kube-apiserver with our CRDs.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Kubectl } from './kubectl.ts';
import { startTarget, type Target } from './kubectl-target.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('kubectl');

const everyVerb = [
  'create',
  'delete',
  'deletecollection',
  'get',
  'list',
  'patch',
  'update',
  'watch',
];

function role(name: string, verbs: readonly string[], more: object = {}): string {
  return JSON.stringify({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Role',
    metadata: { name, ...more },
    spec: { rules: [{ kinds: ['Role'], verbs }] },
  });
}

describe('kubectl against a site', { skip }, () => {
  let target: Target;
  let kubectl: Kubectl;
  let folder: string;

  before(async () => {
    target = await startTarget();
    kubectl = await Kubectl.with(target.kubeconfig);
    folder = await mkdtemp(join(tmpdir(), 'hansa-manifests-'));
  });
  after(async () => {
    await kubectl.close();
    await target.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const apply = (body: string, ...flags: string[]): Promise<string> =>
    kubectl.ok(['apply', '-f', '-', ...flags], { input: body });
  const patch = (name: string, type: string, body: object): Promise<string> =>
    kubectl.ok([
      'patch',
      `roles.hansa.dev/${name}`,
      `--type=${type}`,
      `--patch=${JSON.stringify(body)}`,
    ]);
  const get = (name: string, ...flags: string[]): Promise<string> =>
    kubectl.ok(['get', `roles.hansa.dev/${name}`, ...flags]);
  const field = async (name: string, path: string): Promise<string> =>
    kubectl.ok(['get', `roles.hansa.dev/${name}`, '-o', `jsonpath={${path}}`]);

  it('lists what the site serves', async () => {
    const resources = await kubectl.ok(['api-resources', '--api-group=hansa.dev']);
    assert.match(resources, /^NAME +SHORTNAMES +APIVERSION +NAMESPACED +KIND\n/);
    for (const kind of ['Role', 'RoleBinding', 'Site'])
      assert.match(resources, new RegExp(`hansa.dev/v1alpha1 +false +${kind}\\n`));
    const wide = await kubectl.ok(['api-resources', '--api-group=hansa.dev', '-o', 'wide']);
    const verbs = /^roles .* Role +(\S+)/m.exec(wide)?.[1]?.split(',').toSorted();
    assert.deepEqual(verbs, everyVerb);
    assert.match(await kubectl.ok(['api-versions']), /^hansa.dev\/v1alpha1$/m);
  });

  it('names the version of its server', async () => {
    assert.match(await kubectl.ok(['version']), /Server Version: v\d+\.\d+/);
  });

  it('applies from the client: created, configured, unchanged', async () => {
    assert.equal(await apply(role('client', ['get'])), 'role.hansa.dev/client created\n');
    assert.equal(await apply(role('client', ['list'])), 'role.hansa.dev/client configured\n');
    assert.equal(await apply(role('client', ['list'])), 'role.hansa.dev/client unchanged\n');
    assert.equal(await field('client', '.spec.rules[0].verbs'), '["list"]');
    assert.match(
      await field('client', '.metadata.annotations'),
      /kubectl\.kubernetes\.io\/last-applied-configuration/,
    );
  });

  it('applies on the server, and says who owns a field in a conflict', async () => {
    const mine = ['--server-side', '--field-manager=one'];
    const yours = ['--server-side', '--field-manager=two'];
    assert.equal(
      await apply(role('server', ['get']), ...mine),
      'role.hansa.dev/server serverside-applied\n',
    );
    const refused = await kubectl.run(['apply', '-f', '-', ...yours], {
      input: role('server', ['list']),
    });
    assert.equal(refused.code, 1);
    assert.match(
      refused.stderr,
      /Apply failed with 1 conflict: conflict with "one": \.spec\.rules/,
    );
    await apply(role('server', ['list']), ...yours, '--force-conflicts');
    const owners = await kubectl.ok([
      'get',
      'roles.hansa.dev/server',
      '--show-managed-fields',
      '-o',
      'jsonpath={.metadata.managedFields[*].manager}',
    ]);
    assert.equal(owners, 'two');
  });

  it('moves from client-side to server-side apply', async () => {
    await apply(role('moved', ['get']));
    assert.match(await apply(role('moved', ['list']), '--server-side'), /serverside-applied/);
    assert.equal(await field('moved', '.spec.rules[0].verbs'), '["list"]');
  });

  it('shows what apply would change, and that nothing would', async () => {
    await apply(role('differs', ['get']));
    const changed = await kubectl.run(['diff', '-f', '-'], { input: role('differs', ['watch']) });
    assert.equal(changed.code, 1, changed.stderr);
    assert.match(changed.stdout, /^- {4}- get$/m);
    assert.match(changed.stdout, /^\+ {4}- watch$/m);
    const same = await kubectl.run(['diff', '-f', '-'], { input: role('differs', ['get']) });
    assert.deepEqual(same, { code: 0, stdout: '', stderr: '' });
    const server = await kubectl.run(['diff', '--server-side', '--force-conflicts', '-f', '-'], {
      input: role('differs', ['watch']),
    });
    assert.equal(server.code, 1, server.stderr);
  });

  it('patches by merge and by JSON patch', async () => {
    await apply(role('patched', ['get']));
    assert.equal(
      await patch('patched', 'merge', { metadata: { labels: { tier: 'gold' } } }),
      'role.hansa.dev/patched patched\n',
    );
    await patch('patched', 'json', [
      { op: 'replace', path: '/spec/rules/0/verbs/0', value: 'watch' },
    ]);
    assert.equal(await field('patched', '.metadata.labels.tier'), 'gold');
    assert.equal(await field('patched', '.spec.rules[0].verbs[0]'), 'watch');
    assert.match(
      await patch('patched', 'merge', { metadata: { labels: { tier: 'gold' } } }),
      /patched \(no change\)/,
    );
  });

  it('refuses a strategic merge patch as it does for every custom resource', async () => {
    await apply(role('strategic', ['get']));
    const { code, stderr } = await kubectl.run([
      'patch',
      'roles.hansa.dev/strategic',
      '--type=strategic',
      '--patch={}',
    ]);
    assert.equal(code, 1);
    assert.match(stderr, /accepted media types include: application\/json-patch\+json/);
  });

  it('labels, annotates, and refuses to overwrite without being told', async () => {
    await apply(role('labelled', ['get']));
    await kubectl.ok(['label', 'roles.hansa.dev/labelled', 'app=web']);
    const refused = await kubectl.run(['label', 'roles.hansa.dev/labelled', 'app=db']);
    assert.match(refused.stderr, /already has a value \(web\), and --overwrite is false/);
    await kubectl.ok(['label', '--overwrite', 'roles.hansa.dev/labelled', 'app=db']);
    await kubectl.ok(['annotate', 'roles.hansa.dev/labelled', 'note=hello']);
    assert.equal(await field('labelled', '.metadata.labels.app'), 'db');
    assert.equal(await field('labelled', '.metadata.annotations.note'), 'hello');
    await kubectl.ok(['label', 'roles.hansa.dev/labelled', 'app-']);
    assert.equal(await field('labelled', '.metadata.labels.app'), '');
  });

  it('edits with the editor of the user', async () => {
    await apply(role('edited', ['get']));
    const editor = join(folder, 'editor.sh');
    await writeFile(editor, '#!/bin/sh\nsed -i "s/- get$/- watch/" "$1"\n', { mode: 0o700 });
    const said = await kubectl.ok(['edit', 'roles.hansa.dev/edited'], {
      env: { KUBE_EDITOR: editor },
    });
    assert.equal(said, 'role.hansa.dev/edited edited\n');
    assert.equal(await field('edited', '.spec.rules[0].verbs[0]'), 'watch');
  });

  it('creates once, and replaces', async () => {
    const body = role('replaced', ['get']);
    assert.equal(
      await kubectl.ok(['create', '-f', '-'], { input: body }),
      'role.hansa.dev/replaced created\n',
    );
    const again = await kubectl.run(['create', '-f', '-'], { input: body });
    assert.match(again.stderr, /\(AlreadyExists\).*roles\.hansa\.dev "replaced" already exists/);
    await kubectl.ok(['replace', '-f', '-'], { input: role('replaced', ['list']) });
    assert.equal(await field('replaced', '.spec.rules[0].verbs'), '["list"]');
    await kubectl.ok(['replace', '--force', '-f', '-'], { input: role('replaced', ['watch']) });
    assert.equal(await field('replaced', '.spec.rules[0].verbs'), '["watch"]');
  });

  it('prints tables, YAML, JSON, names, columns and templates', async () => {
    await apply(role('printed', ['get']));
    assert.match(await get('printed'), /^NAME +AGE\nprinted +\d+s\n$/);
    assert.match(await get('printed', '-o', 'wide'), /^NAME +RULES +AGE\nprinted +.+ +\d+s\n$/);
    assert.match(await get('printed', '--show-labels'), /LABELS\n.*<none>\n$/);
    assert.match(await get('printed', '-o', 'yaml'), /^kind: Role$/m);
    assert.equal((JSON.parse(await get('printed', '-o', 'json')) as { kind: string }).kind, 'Role');
    assert.equal(await get('printed', '-o', 'name'), 'role.hansa.dev/printed\n');
    assert.equal(await get('printed', '-o', 'custom-columns=WHO:.metadata.name'), 'WHO\nprinted\n');
    assert.equal(await get('printed', '-o', 'go-template={{.metadata.name}}'), 'printed');
    assert.equal(await get('printed', '-o', 'jsonpath={.spec.rules[0].kinds[0]}'), 'Role');
  });

  it('selects by label and by field', async () => {
    await apply(role('red', ['get'], { labels: { color: 'red' } }));
    await apply(role('green', ['get'], { labels: { color: 'green' } }));
    const names = (...flags: string[]): Promise<string> =>
      kubectl.ok(['get', 'roles.hansa.dev', '-o', 'name', ...flags]);
    assert.equal(await names('-l', 'color=red'), 'role.hansa.dev/red\n');
    assert.equal(
      await names('-l', 'color in (red,green)'),
      'role.hansa.dev/green\nrole.hansa.dev/red\n',
    );
    assert.equal(await names('-l', 'color,color!=red'), 'role.hansa.dev/green\n');
    assert.equal(await names('--field-selector=metadata.name=green'), 'role.hansa.dev/green\n');
    const bad = await kubectl.run(['get', 'roles.hansa.dev', '--field-selector=spec.none=1']);
    assert.match(bad.stderr, /field label not supported: spec\.none/);
  });

  it('tries on the server without a trace', async () => {
    assert.match(
      await apply(role('dry', ['get']), '--dry-run=server'),
      /created \(server dry run\)/,
    );
    const { code, stderr } = await kubectl.run(['get', 'roles.hansa.dev/dry']);
    assert.equal(code, 1);
    assert.match(stderr, /\(NotFound\).*roles\.hansa\.dev "dry" not found/);
    await apply(role('dry', ['get']));
    await kubectl.ok(['delete', 'roles.hansa.dev/dry', '--dry-run=server']);
    assert.equal(await field('dry', '.metadata.name'), 'dry');
  });

  it('reads long lists in chunks', async () => {
    const many = Array.from({ length: 12 }, (_, index) =>
      role(`chunk-${index}`, ['get'], { labels: { chunk: 'yes' } }),
    );
    await apply(many.join('\n'));
    const flags = ['get', 'roles.hansa.dev', '-l', 'chunk=yes', '-o', 'name'];
    const whole = await kubectl.ok([...flags, '--chunk-size=0']);
    const { stdout, stderr } = await kubectl.run([...flags, '--chunk-size=5', '-v=8']);
    assert.equal(stdout, whole);
    assert.equal(stdout.trim().split('\n').length, 12);
    assert.equal(stderr.match(/[?&]continue=/g)?.length, 2);
  });

  it('waits for finalizers before an object is gone', async () => {
    await apply(role('held', ['get'], { finalizers: ['hansa.dev/hold'] }));
    await kubectl.ok(['delete', 'roles.hansa.dev/held', '--wait=false']);
    assert.match(await field('held', '.metadata.deletionTimestamp'), /^\d{4}-/);
    const waiting = kubectl.run(['wait', '--for=delete', 'roles.hansa.dev/held', '--timeout=60s']);
    await kubectl.ok([
      'patch',
      'roles.hansa.dev/held',
      '--type=merge',
      '--patch={"metadata":{"finalizers":null}}',
    ]);
    assert.equal((await waiting).code, 0);
  });

  it('deletes by name, by label and all that a file names', async () => {
    await apply([role('gone-1', ['get']), role('gone-2', ['get'])].join('\n'));
    assert.equal(
      await kubectl.ok(['delete', 'roles.hansa.dev', 'gone-1']),
      'role.hansa.dev "gone-1" deleted\n',
    );
    await kubectl.ok(['delete', '-f', '-'], { input: role('gone-2', ['get']) });
    await apply(role('gone-3', ['get'], { labels: { gone: 'yes' } }));
    await kubectl.ok(['delete', 'roles.hansa.dev', '-l', 'gone=yes']);
    const { stderr } = await kubectl.run(['delete', 'roles.hansa.dev', 'gone-1']);
    assert.match(stderr, /\(NotFound\)/);
  });

  it('watches changes as rows of a table', async () => {
    await apply(role('watched', ['get'], { labels: { watch: 'yes' } }));
    const child = kubectl.start(['get', 'roles.hansa.dev', '-l', 'watch=yes', '-w', '-o', 'wide']);
    let seen = '';
    const until = (pattern: RegExp): Promise<void> =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`watch showed no ${pattern}: ${seen}`)),
          60_000,
        );
        const check = (): void => {
          if (!pattern.test(seen)) return;
          clearTimeout(timer);
          child.stdout?.off('data', check);
          resolve();
        };
        child.stdout?.on('data', check);
        check();
      });
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      seen += text;
    });
    try {
      await until(/^NAME +RULES +AGE\nwatched .*get/);
      await apply(role('watched', ['list'], { labels: { watch: 'yes' } }));
      await until(/\nwatched .*list/);
    } finally {
      child.kill();
    }
  });

  it('waits for conditions and for values', async () => {
    await kubectl.ok(['wait', '--for=condition=Ready', 'site/site', '--timeout=60s']);
    await kubectl.ok([
      'wait',
      '--for=jsonpath={.status.trustDomain}=lubeck.example',
      'site/site',
      '--timeout=60s',
    ]);
    const never = await kubectl.run([
      'wait',
      '--for=condition=Impossible',
      'site/site',
      '--timeout=1s',
    ]);
    assert.equal(never.code, 1);
    assert.match(never.stderr, /timed out waiting for the condition on sites\/site/);
  });

  it('explains fields, one by one and as a tree', async () => {
    const spec = await kubectl.ok(['explain', 'roles.hansa.dev.spec.rules']);
    assert.match(spec, /GROUP: +hansa\.dev\nKIND: +Role\nVERSION: +v1alpha1/);
    assert.match(spec, /FIELD: rules <\[\]Object>/);
    assert.match(spec, /verbs\t<\[\]string> -required-/);
    const tree = await kubectl.ok(['explain', 'roles.hansa.dev', '--recursive']);
    assert.match(tree, / {2}spec\t<Object> -required-\n {4}rules\t<\[\]Object> -required-/);
    assert.match(tree, /managedFields\t<\[\]\w+>\n {6}apiVersion\t<string>/);
    const wrong = await kubectl.run(['explain', 'roles.hansa.dev.spec.nothing']);
    assert.match(wrong.stderr, /field "nothing" does not exist/);
  });

  it('describes an object', async () => {
    await apply(role('described', ['get']));
    const text = await kubectl.ok(['describe', 'roles.hansa.dev/described']);
    assert.match(text, /^Name: +described\n/);
    assert.match(text, /^Kind: +Role$/m);
    assert.match(text, /Verbs:\n +get\n/);
  });

  it('tells what the user may do, and who the user is', async () => {
    assert.equal(await kubectl.ok(['auth', 'can-i', 'create', 'roles.hansa.dev']), 'yes\n');
    const list = await kubectl.ok(['auth', 'can-i', '--list']);
    assert.match(list, /^Resources +Non-Resource URLs +Resource Names +Verbs\n/);
    assert.match(await kubectl.ok(['auth', 'whoami']), /^ATTRIBUTE +VALUE\nUsername +\S+\n/);
  });

  it('lets a viewer look and nothing else, and says so beforehand', async (t) => {
    if (target.viewer === undefined) {
      t.skip('the oracle has no viewer');
      return;
    }
    const viewer = await Kubectl.with(await target.viewer());
    try {
      assert.match(await viewer.ok(['get', 'sites']), /^NAME /);
      const may = await viewer.run(['auth', 'can-i', 'create', 'roles.hansa.dev']);
      assert.deepEqual([may.code, may.stdout], [1, 'no\n']);
      assert.equal(await viewer.ok(['auth', 'can-i', 'watch', 'roles.hansa.dev']), 'yes\n');
      assert.match(await viewer.ok(['auth', 'whoami']), /Username +token:looker\n/);
      const refused = await viewer.run(['create', '-f', '-'], { input: role('never', ['get']) });
      assert.equal(refused.code, 1);
      assert.match(
        refused.stderr,
        /\(Forbidden\).*roles\.hansa\.dev.* is forbidden: User "token:looker" cannot create resource "roles" in API group "hansa\.dev" at the cluster scope/,
      );
    } finally {
      await viewer.close();
    }
  });

  it('refuses unknown fields and bad values with their paths', async () => {
    const unknown = await kubectl.run(['apply', '-f', '-'], {
      input: role('wrong', ['get']).replace('"verbs"', '"verbz"'),
    });
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /strict decoding error: unknown field "spec\.rules\[0\]\.verbz"/);
    const bad = await kubectl.run(['create', '-f', '-'], { input: role('wrong', ['fly']) });
    assert.match(
      bad.stderr,
      /The Role "wrong" is invalid: .*spec\.rules\[0\]\.verbs\[0\]: Unsupported value: "fly"/,
    );
    const kind = await kubectl.run(['get', 'gadgets']);
    assert.match(kind.stderr, /the server doesn't have a resource type "gadgets"/);
  });
});
