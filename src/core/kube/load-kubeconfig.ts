// Loads the kubeconfig that a command names: reads its files and prepares the credential of one
// context. Only the command line uses it.

import { readFileSync, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { fileProblem } from '../command/file-problem.ts';
import { HansaError } from '../errors/error.ts';
import type { Io } from '../plane/command-kit.ts';
import { ExecCredentialSource, type PluginIo } from './apply/exec-credential.ts';
import type { KubeCredentialSource, KubeEndpoint } from './kube-client.ts';
import {
  contextOfServer,
  type KubeconfigContext,
  type KubeconfigCredential,
  type KubeconfigFile,
  maxKubeconfigBytes,
  readKubeconfig,
  type TextSource,
} from './kubeconfig.ts';

/** Certificates, keys and tokens. */
const maxFileBytes = 1024 * 1024;

export interface LoadedKubeconfig {
  readonly context: KubeconfigContext;
  readonly endpoint: KubeEndpoint;
  readonly credentials: KubeCredentialSource;
}

export interface KubeconfigChoice {
  /** Of --kubeconfig. Default: the files of KUBECONFIG, or ~/.kube/config. */
  readonly file?: string | undefined;
  /** Of --context. Default: the current context. */
  readonly context?: string | undefined;
}

/** Throws HANSA_USAGE that says what is wrong with which file. */
export function loadKubeconfig(
  choice: KubeconfigChoice,
  io: PluginIo & Pick<Io, 'cwd'>,
): LoadedKubeconfig {
  const context = readKubeconfig(filesOf(choice, io), choice.context);
  const { server, ca, tlsServerName, proxyURL, credential } = context;
  const caBundle = ca && textOf(ca);
  const endpoint: KubeEndpoint = { server, caBundle, tlsServerName, proxyURL };
  return { context, endpoint, credentials: sourceOf(credential, endpoint, io) };
}

/** As loadKubeconfig, for the context of this API server. Undefined where the files have none. */
export function findKubeconfig(
  choice: Pick<KubeconfigChoice, 'file'>,
  server: string,
  io: PluginIo & Pick<Io, 'cwd'>,
): LoadedKubeconfig | undefined {
  const files = filesOf(choice, io);
  const context = contextOfServer(files, server);
  return context === undefined ? undefined : loadKubeconfig({ ...choice, context }, io);
}

function filesOf({ file }: KubeconfigChoice, io: Pick<Io, 'env' | 'cwd'>): KubeconfigFile[] {
  if (file !== undefined) return [readConfig(resolve(io.cwd, file))];
  const listed = (io.env['KUBECONFIG'] ?? '').split(delimiter).filter((path) => path !== '');
  const home = io.env['HOME'] ?? '';
  if (listed.length === 0 && home === '') {
    throw usage(
      'There is no kubeconfig: neither KUBECONFIG nor HOME is set. Name one with --kubeconfig.',
    );
  }
  const paths = listed.length > 0 ? listed : [join(home, '.kube', 'config')];
  const absolute = [...new Set(paths.map((path) => resolve(io.cwd, path)))];
  // As in kubectl, files of the list may be missing.
  const there = absolute.filter((path) => statSync(path, { throwIfNoEntry: false }) !== undefined);
  if (there.length === 0) {
    throw usage(`There is no kubeconfig at ${absolute.join(', ')}. Name one with --kubeconfig.`);
  }
  return there.map(readConfig);
}

function readConfig(path: string): KubeconfigFile {
  return { path, text: readText(path, maxKubeconfigBytes) };
}

function sourceOf(
  credential: KubeconfigCredential,
  endpoint: KubeEndpoint,
  io: PluginIo,
): KubeCredentialSource {
  switch (credential.type) {
    case 'none':
      return { current: () => credential };
    case 'token': {
      // A file is read again for each request: another program may renew it.
      const { token } = credential;
      return { current: () => ({ type: 'token', token: textOf(token).trim() }) };
    }
    case 'certificate': {
      const [certificate, key] = [textOf(credential.certificate), textOf(credential.key)];
      return { current: () => ({ type: 'certificate', certificate, key }) };
    }
    case 'exec':
      return new ExecCredentialSource({ plugin: credential.plugin, endpoint, io });
  }
}

function textOf(source: TextSource): string {
  return source.type === 'text' ? source.text : readText(source.path, maxFileBytes);
}

function readText(path: string, maxBytes: number): string {
  try {
    if (statSync(path).size > maxBytes) throw usage(`${path} is larger than ${maxBytes} bytes.`);
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof HansaError) throw error;
    throw usage(`Cannot read ${path}: ${fileProblem(error)}.`);
  }
}

function usage(message: string): HansaError {
  return new HansaError('HANSA_USAGE', message);
}
