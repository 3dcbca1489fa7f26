// Answers the signing requests of one stream. Several run at once and finish in any order.

import { create } from '@bufbuild/protobuf';
import {
  JwtResultSchema,
  RefusalSchema,
  type SignRequest,
  type SignResponse,
  SignResponseSchema,
  X509ResultSchema,
} from '../../../proto/gen/agent_pb.ts';
import { HansaError, toHansaError } from '../errors/error.ts';
import type { Log } from '../log/log.ts';
import { maxSignBatch, maxUnansweredSignRequests } from './limits.ts';
import type { Outbox } from './outbox.ts';
import { encodeToAgent } from './state-messages.ts';

export interface SignAnswersParts {
  readonly log: Log;
  readonly outbox: Pick<Outbox, 'urgent'>;
  /** Waits until the stream may sign. Rejects where it may not, and when the stream has ended. */
  readonly sign: (request: SignRequest) => Promise<SignResponse>;
}

export class SignAnswers {
  readonly #parts: SignAnswersParts;
  #unanswered = 0;

  constructor(parts: SignAnswersParts) {
    this.#parts = parts;
  }

  /** Returns at once. Throws where the agent asks for too much. */
  ask(request: SignRequest): void {
    const count = request.x509.length + request.jwt.length;
    if (count > maxSignBatch) {
      throw new HansaError(
        'HANSA_TOO_LARGE',
        `A signing request has ${count} parts: the limit is ${maxSignBatch}.`,
      );
    }
    if (this.#unanswered >= maxUnansweredSignRequests) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `The agent has more than ${maxUnansweredSignRequests} unanswered signing requests.`,
      );
    }
    this.#unanswered++;
    void this.#answer(request);
  }

  /** Never rejects. */
  async #answer(request: SignRequest): Promise<void> {
    const message = encodeToAgent({ case: 'signed', value: await this.#responseTo(request) });
    // It counts until the agent has read it, so that answers cannot pile up.
    this.#parts.outbox.urgent(message, () => this.#unanswered--);
  }

  /** Never rejects. */
  async #responseTo(request: SignRequest): Promise<SignResponse> {
    try {
      return { ...(await this.#parts.sign(request)), id: request.id };
    } catch (caught) {
      const error = toHansaError(caught);
      if (error.code === 'HANSA_INTERNAL') {
        this.#parts.log.error('cannot sign for an agent', { error: error.cause });
      }
      return refuseAll(request, error);
    }
  }
}

function refuseAll({ id, x509, jwt }: SignRequest, { code, message }: HansaError): SignResponse {
  const refusal = create(RefusalSchema, { code, message });
  return create(SignResponseSchema, {
    id,
    x509: x509.map(() => create(X509ResultSchema, { refusal })),
    jwt: jwt.map(() => create(JwtResultSchema, { refusal })),
  });
}
