// Changes by the stock kubectl that need approval: refused with the name of the Approval, approved with kubectl by
// another person, and then applied.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { Kubectl } from './kubectl.ts';
import { launcher, type Site, startSite } from './site.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('kubectl');
const run = promisify(execFile);

const role = (verbs: readonly string[]) =>
  JSON.stringify({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Role',
    metadata: { name: 'pilots' },
    spec: { rules: [{ kinds: ['Site'], verbs }] },
  });

describe('kubectl and approvals', { skip }, () => {
  let site: Site;
  /** The owner, with a certificate of the admin socket. */
  let owner: Kubectl;
  /** An approver, with a token. */
  let ada: Kubectl;

  async function kubeconfig(file: string, ...flags: string[]): Promise<Kubectl> {
    const { stdout } = await run(launcher, ['kubeconfig', ...flags]);
    const path = join(site.dataDir, file);
    await writeFile(path, stdout, { mode: 0o600 });
    return Kubectl.with(path);
  }

  before(async () => {
    site = await startSite();
    const dataDir = `--data-dir=${site.dataDir}`;
    owner = await kubeconfig('owner-kubeconfig', dataDir);
    const made = await run(launcher, [
      'access',
      'token',
      'create',
      'ada',
      '--role=approver',
      '-o=json',
      dataDir,
    ]);
    const tokenFile = join(site.dataDir, 'ada.token');
    const { token } = JSON.parse(made.stdout) as { token: string };
    await writeFile(tokenFile, token, { mode: 0o600 });
    ada = await kubeconfig(
      'ada-kubeconfig',
      `--site=${site.url}`,
      `--ca-file=${join(site.dataDir, 'ca.pem')}`,
      `--token-file=${tokenFile}`,
    );
    const rules = ['create', 'update', 'delete'].map((verb) => ({
      action: `Role.${verb}`,
      mode: 'two-person',
    }));
    const policy = JSON.stringify({ spec: { approvals: { rules } } });
    await owner.ok(['patch', 'site', 'site', '--type=merge', `--patch=${policy}`]);
  });
  after(async () => {
    await owner.close();
    await ada.close();
    await site.stop();
  });

  async function fails(by: Kubectl, args: readonly string[], input = ''): Promise<string> {
    const { code, stderr } = await by.run(args, { input });
    assert.notEqual(code, 0, args.join(' '));
    return stderr;
  }

  /** The name of the Approval in the error of kubectl. */
  async function needed(args: readonly string[], input = ''): Promise<string> {
    const printed = await fails(owner, args, input);
    const name = /needs approval: .* hansa approval approve ([-a-z0-9]+)/.exec(printed)?.[1];
    assert.ok(name !== undefined, printed);
    return name;
  }
  const decision = (name: string, decided: string) => [
    'patch',
    'approval',
    name,
    '--type=merge',
    `--patch={"spec":{"decision":"${decided}"}}`,
  ];
  const stateOf = (name: string) =>
    owner.ok(['get', 'approval', name, '-o', 'jsonpath={.status.state}']);

  for (const [how, flags] of [
    ['from the client', []],
    ['from the server', ['--server-side']],
  ] as const) {
    it(`applies ${how} once approved: a new object, a change, a deletion`, async () => {
      const apply = ['apply', '-f', '-', ...flags];
      for (const verbs of [['get'], ['get', 'list']]) {
        const input = role(verbs);
        await owner.ok([...apply, '--dry-run=server'], { input });
        const name = await needed(apply, input);
        assert.equal(await needed(apply, input), name);
        assert.match(await fails(owner, decision(name, 'approved')), /another user must approve/);
        await ada.ok(decision(name, 'approved'));
        await owner.ok(apply, { input });
        assert.equal(await stateOf(name), 'spent');
        // Without a change, nothing needs approval.
        await owner.ok(apply, { input });
      }
      const remove = ['delete', 'role', 'pilots'];
      await ada.ok(decision(await needed(remove), 'approved'));
      await owner.ok(remove);
    });
  }

  it('shows Approvals, and lets nobody create or edit one', async () => {
    const name = await needed(['create', '-f', '-'], role(['watch']));
    const table = await ada.ok(['get', 'approvals']);
    assert.match(table, /^NAME +STATE +ACTION +TARGET +REQUESTER +EXPIRES +AGE\n/);
    assert.match(table, new RegExp(`${name} +pending +Role.create +pilots +admin`));
    assert.match(await ada.ok(['explain', 'approval.spec.decision']), /final/);
    const copy = (await ada.ok(['get', 'approval', name, '-o', 'json'])).replaceAll(name, 'copy');
    assert.match(await fails(owner, ['create', '-f', '-'], copy), /forbidden/);
    const edit = '--patch={"spec":{"requester":{"user":"token:ada"}}}';
    assert.match(
      await fails(ada, ['patch', 'approval', name, '--type=merge', edit]),
      /only spec\.decision/,
    );
    await ada.ok(decision(name, 'rejected'));
    await owner.ok(['wait', `approval/${name}`, '--for=jsonpath={.status.state}=rejected']);
  });
});
