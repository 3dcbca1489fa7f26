// The server that kubectl talks to: a site, with the kubeconfig and credential plugin of `hansa`.
// HANSA_KUBECTL_AGAINST=kube-apiserver runs the same tests against kube-apiserver, to check their
// expectations.

import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { crdsOf } from './crds.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { launcher, type Site, startSite } from './site.ts';

export interface Target {
  readonly kubeconfig: string;
  /** A kubeconfig for a caller who may only look. The oracle has no such caller. */
  viewer?(): Promise<string>;
  stop(): Promise<void>;
}

export async function startTarget(): Promise<Target> {
  if (process.env['HANSA_KUBECTL_AGAINST'] === 'kube-apiserver') return startOracle();
  const site = await startSite();
  try {
    const print = promisify(execFile)(launcher, ['kubeconfig', `--data-dir=${site.dataDir}`]);
    const kubeconfig = join(site.dataDir, 'kubeconfig');
    await writeFile(kubeconfig, (await print).stdout, { mode: 0o600 });
    return { kubeconfig, viewer: () => viewerOf(site), stop: () => site.stop() };
  } catch (error) {
    await site.stop();
    throw error;
  }
}

/** By a token in a file, as a script would. */
async function viewerOf(site: Site): Promise<string> {
  const run = promisify(execFile);
  const flags = [`--data-dir=${site.dataDir}`, '-o', 'json'];
  const made = await run(launcher, [
    'access',
    'token',
    'create',
    'looker',
    '--role=viewer',
    ...flags,
  ]);
  const tokenFile = join(site.dataDir, 'viewer-token');
  const { token } = JSON.parse(made.stdout) as { token: string };
  await writeFile(tokenFile, token, { mode: 0o600 });
  const printed = await run(launcher, [
    'kubeconfig',
    `--site=${site.url}`,
    `--ca-file=${join(site.dataDir, 'ca.pem')}`,
    `--token-file=${tokenFile}`,
  ]);
  const kubeconfig = join(site.dataDir, 'viewer-kubeconfig');
  await writeFile(kubeconfig, printed.stdout, { mode: 0o600 });
  return kubeconfig;
}

async function startOracle(): Promise<Target> {
  const kube = await startKubeApiserver(crdsOf());
  try {
    await pretendSite(kube);
    return { kubeconfig: kube.kubeconfig, stop: () => kube.stop() };
  } catch (error) {
    await kube.stop();
    throw error;
  }
}

/** The oracle has no daemon that makes a Site and reports on it. */
async function pretendSite({ client }: KubeApiserver): Promise<void> {
  const path = '/apis/hansa.dev/v1alpha1/sites';
  await client.send({
    method: 'POST',
    path,
    body: JSON.stringify({
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Site',
      metadata: { name: 'site' },
    }),
  });
  const condition = {
    type: 'Ready',
    status: 'True',
    reason: 'Serving',
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
  const answer = await client.send({
    method: 'PATCH',
    path: `${path}/site/status`,
    headers: { 'content-type': 'application/merge-patch+json' },
    body: JSON.stringify({ status: { trustDomain: 'lubeck.example', conditions: [condition] } }),
  });
  if (answer.status !== 200) throw new Error(`the oracle refused a Site: ${answer.text}`);
}
