// Fuzz targets for the Kubernetes client: responses of API servers, their error texts, kubeconfig files
// and the output of exec plugins.

import { parseExecCredential } from '../../../src/core/kube/apply/exec-credential.ts';
import { HansaError } from '../../../src/core/errors/error.ts';
import { HttpSyntaxError, ResponseParser } from '../../../src/core/kube/http-response.ts';
import { KubeStatusError } from '../../../src/core/kube/kube-errors.ts';
import { type ExecPlugin, readKubeconfig } from '../../../src/core/kube/kubeconfig.ts';
import type { Target } from '../target.ts';

/** What a parser told about its input, in pieces of this size. */
function readInPieces(input: Buffer, size: number): string {
  const told: string[] = [];
  let body = '';
  const parser = new ResponseParser({
    onHead: ({ status, headers }) => told.push(`${status} ${JSON.stringify(headers)}`),
    onData: (chunk) => {
      body += chunk.toString('latin1');
    },
    onEnd: (isReusable) => told.push(`${body} ${isReusable}`),
  });
  try {
    for (let at = 0; at < input.length; at += size) parser.push(input.subarray(at, at + size));
    parser.finish();
  } catch (caught) {
    if (!(caught instanceof HttpSyntaxError)) throw caught;
    told.push('refused');
  }
  if (told.length > 3) throw new Error('it read more than one response');
  return told.join('\n');
}

const plugin: ExecPlugin = {
  apiVersion: 'client.authentication.k8s.io/v1',
  command: 'login',
  args: [],
  env: [],
  interactiveMode: 'Never',
  provideClusterInfo: false,
  installHint: '',
  clusterConfig: undefined,
};

export const kubeTargets: readonly Target[] = [
  {
    name: 'http-response',
    grammar: 'bytes',
    dictionary: [
      'HTTP/1.1 200 OK\r\n',
      'HTTP/1.0 204 \r\n',
      'HTTP/1.1 100 Continue\r\n\r\n',
      'Content-Length: 5\r\n',
      'Transfer-Encoding: chunked\r\n',
      'Connection: close\r\n',
      '\r\n\r\n',
      '0\r\n\r\n',
      '5\r\nhello\r\n',
      '\n',
      '\r',
      '\u0000',
    ],
    maxBytes: 20_000,
    run: (input) => {
      const whole = readInPieces(input, Math.max(1, input.length));
      if (readInPieces(input, 1) !== whole || readInPieces(input, 7) !== whole) {
        throw new Error('it depends on how the bytes are cut');
      }
      if (whole.endsWith('refused')) throw new HansaError('HANSA_UNREACHABLE', 'refused');
    },
  },
  {
    name: 'kube-status',
    grammar: 'json',
    dictionary: ['Status', 'reason', 'message', 'details', 'retryAfterSeconds', '\u001b[2J', '‮'],
    maxBytes: 20_000,
    run: (body) => {
      const error = new KubeStatusError('app1.example:6443', 'get x', {
        status: 409,
        headers: {},
        body,
      });
      const { message, retryAfterSeconds = 1 } = error;
      if (message.length > 1300 || error.reason.length > 65) throw new Error('it has no bound');
      if (/[\p{Cc}\p{Cf}]/u.test(message)) throw new Error('it can move a cursor');
      if (!(retryAfterSeconds >= 1 && retryAfterSeconds <= 3600)) {
        throw new Error(`it waits ${retryAfterSeconds} s`);
      }
    },
  },
  {
    name: 'kubeconfig',
    grammar: 'text',
    dictionary: [
      'current-context: ',
      'clusters:\n- name: c\n  cluster:\n',
      'insecure-skip-tls-verify: true',
      'server: https://a.example',
      'server: http://a.example',
      'certificate-authority-data: ',
      'exec:',
      'apiVersion: client.authentication.k8s.io/v1beta1',
      'auth-provider:',
      'username: ',
      '&a [*a]',
      '<<: ',
      '%YAML 1.1',
    ],
    maxBytes: 4096,
    run: (input) => {
      const { server } = readKubeconfig([{ path: '/f', text: input.toString('utf8') }]);
      if (server.protocol !== 'https:') throw new Error('it would use a plain connection');
    },
  },
  {
    name: 'exec-credential',
    grammar: 'json',
    dictionary: [
      'ExecCredential',
      'client.authentication.k8s.io/v1',
      'status',
      'token',
      'clientCertificateData',
      'clientKeyData',
      'expirationTimestamp',
      '2026-11-16T00:00:00Z',
    ],
    maxBytes: 20_000,
    run: (input) => {
      const { credential, expiresAtMs } = parseExecCredential(input, plugin);
      if (Number.isNaN(expiresAtMs)) throw new Error('it has no time');
      if (credential.type === 'token' && credential.token === '') throw new Error('it is empty');
    },
  },
];
