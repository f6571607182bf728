// Emails through the npm client `resend`: every call that it has for them but those of received mail
// and metrics. Started by ../run, which sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const mail = (more) => ({
  from: 'Acme <hello@acme.example>',
  to: ['delivered@resend.dev'],
  subject: 'Hello',
  html: '<p>It works.</p>',
  ...more,
});

test('an email is sent and read', async () => {
  const { id } = ok(await resend.emails.send(mail({
    cc: 'a@example.com', bcc: ['b@example.com'], replyTo: 'c@example.com', text: 'It works.',
    headers: { 'X-Entity-Ref-ID': '1' }, tags: [{ name: 'category', value: 'hello' }],
  })));
  assert.match(id, UUID);
  const email = ok(await resend.emails.get(id));
  assert.equal(email.object, 'email');
  assert.deepEqual([email.from, email.to, email.subject], ['Acme <hello@acme.example>', ['delivered@resend.dev'], 'Hello']);
  assert.deepEqual([email.cc, email.bcc, email.reply_to], [['a@example.com'], ['b@example.com'], ['c@example.com']]);
  assert.deepEqual([email.html, email.text], ['<p>It works.</p>', 'It works.']);
  assert.deepEqual(email.tags, [{ name: 'category', value: 'hello' }]);
  assert.match(email.created_at, TIME);
  assert.equal(email.message_id, `<${id}@acme.example>`);
  const list = ok(await resend.emails.list({ limit: 1 }));
  assert.deepEqual([list.object, list.data[0].id], ['list', id]);
  const link = ok(await resend.emails.share(id, { expiresIn: '10m' }));
  assert.equal(await (await fetch(link.url)).text(), '<p>It works.</p>');
});

test('an API key is made, listed, renamed and deleted', async () => {
  const { id, token } = ok(await resend.apiKeys.create({ name: 'shop', permission: 'sending_access' }));
  assert.match(id, UUID);
  const own = new Resend(token);
  ok(await own.emails.send(mail()));
  ok(await own.batch.send([mail()]));
  refused(await own.emails.list(), 401, 'restricted_api_key');
  const [newest] = ok(await resend.apiKeys.list({ limit: 1 })).data;
  assert.deepEqual([newest.id, newest.name], [id, 'shop']);
  assert.match(newest.created_at, TIME);
  assert.equal(ok(await resend.apiKeys.update(id, { name: 'old shop' })).id, id);
  assert.equal(ok(await resend.apiKeys.list({ limit: 1 })).data[0].name, 'old shop');
  ok(await resend.apiKeys.remove(id));
  refused(await own.emails.send(mail()), 403, 'invalid_api_key');
  refused(await resend.apiKeys.remove(id), 404, 'not_found');
});

test('an idempotency key sends once', async () => {
  const key = { idempotencyKey: randomUUID() };
  const { id } = ok(await resend.emails.send(mail(), key));
  assert.equal(ok(await resend.emails.send(mail(), key)).id, id);
  refused(await resend.emails.send(mail({ subject: 'Other' }), key), 409, 'invalid_idempotent_request');
  const many = { idempotencyKey: randomUUID() };
  const first = ok(await resend.batch.send([mail()], many)).data;
  assert.deepEqual(ok(await resend.batch.send([mail()], many)).data, first);
});

test('a scheduled email is rescheduled and canceled', async () => {
  const { id } = ok(await resend.emails.send(mail({ scheduledAt: 'in 1 hour' })));
  assert.equal(ok(await resend.emails.get(id)).last_event, 'scheduled');
  const tomorrow = new Date(Date.now() + 24 * 3600 * 1000).toISOString();
  assert.deepEqual(ok(await resend.emails.update({ id, scheduledAt: tomorrow })), { object: 'email', id });
  assert.equal(new Date(ok(await resend.emails.get(id)).scheduled_at).toISOString(), tomorrow);
  assert.deepEqual(ok(await resend.emails.cancel(id)), { object: 'email', id });
  assert.equal(ok(await resend.emails.get(id)).last_event, 'canceled');
});

test('attachments come back as they were', async () => {
  const content = Buffer.from(Array.from({ length: 300000 }, (_, at) => at % 251));
  const { id } = ok(await resend.emails.send(mail({
    attachments: [{ filename: 'a.bin', content }, { filename: 'b.txt', content: Buffer.from('hi'), contentId: 'b' }],
  })));
  const { data } = ok(await resend.emails.attachments.list({ emailId: id }));
  assert.deepEqual(data.map((file) => file.filename).sort(), ['a.bin', 'b.txt']);
  const { id: fileId } = data.find((file) => file.filename === 'a.bin');
  const file = ok(await resend.emails.attachments.get({ emailId: id, id: fileId }));
  assert.deepEqual([file.object, file.size, file.content_disposition], ['attachment', 300000, 'attachment']);
  const got = Buffer.from(await (await fetch(file.download_url)).arrayBuffer());
  assert.ok(got.equals(content));
});

test('creating is sending by another name', async () => {
  const { id } = ok(await resend.emails.create(mail()));
  assert.equal(ok(await resend.emails.get(id)).subject, 'Hello');
  assert.equal(ok(await resend.batch.create([mail(), mail()])).data.length, 2);
});

test('many are sent at once, strictly or as far as they can be', async () => {
  const sent = ok(await resend.batch.send([mail(), mail({ to: 'bounced@resend.dev' })]));
  assert.equal(sent.data.length, 2);
  refused(await resend.batch.send([mail(), mail({ to: 'nobody' })]), 422, 'validation_error');
  const some = ok(await resend.batch.send([mail({ to: 'nobody' }), mail()], { batchValidation: 'permissive' }));
  assert.equal(some.data.length, 1);
  assert.deepEqual(some.errors.map((error) => error.index), [0]);
});

test('what cannot be sent is refused with the reason', async () => {
  refused(await resend.emails.send({ from: 'a@b.example', subject: 'x', html: 'x' }), 422, 'missing_required_field');
  refused(await resend.emails.send(mail({ html: undefined })), 422, 'missing_required_field');
  assert.match(refused(await resend.emails.send(mail({ to: 'nobody' })), 422, 'validation_error'), /`to`/);
  refused(await resend.emails.get(randomUUID()), 404, 'not_found');
});
