# frozen_string_literal: true

require "json"
require "logger"
require "net/http"
require "openssl"
require "timeout"
require "uri"

# The producer's side of kbsync's enqueue API, for a Rails app (KS-07). Standard library only.
#
# A 202 is a promise. Anything else - another status, a time-out, a broken connection, a flag that can't be read - is
# logged, reported to Sentry as a warning, and handed to the fallback: a unit that runs twice is harmless, one that runs
# never is not. kbsync is told how often that was, when it answers again. With the kill switch on, the fallback runs at once
# and the API is not called.
#
# Set it up once (config/initializers/knowledge_base_sync.rb):
#
#   KnowledgeBaseSyncDispatch.default = KnowledgeBaseSyncDispatch.new(
#     url: ENV.fetch("KBSYNC_API_URL"),
#     token: ENV.fetch("KBSYNC_API_TOKEN"),
#     fallback: lambda do |request, record|
#       case request["type"]
#       when "sync_source" then SyncKnowledgeBaseSourceJob.perform_later(record)
#       when "sync_document" then SyncKnowledgeBaseDocumentJob.perform_later(record)
#       when "document_chunks" then SyncKnowledgeBaseDocumentChunksJob.perform_later(record)
#       when "start_crawl" then StartKnowledgeBaseCrawlJob.perform_later(record)
#       when "crawl_url" then CrawlKnowledgeBaseUrlJob.perform_later(record, request["url"])
#       end
#     end
#   )
#
# Use it after the commit, never inside the transaction: a worker may be faster than the commit.
#
#   class KnowledgeBaseDocument < ApplicationRecord
#     after_commit :dispatch_sync, on: %i[create update], if: :saved_change_to_external_id?
#     after_commit :dispatch_chunks, on: %i[create update], if: :saved_change_to_content?
#
#     private
#
#     def dispatch_sync = KnowledgeBaseSyncDispatch.sync_document(self)
#     def dispatch_chunks = KnowledgeBaseSyncDispatch.sync_document_chunks(self)
#   end
#
#   class KnowledgeBaseSource < ApplicationRecord
#     def sync_later = KnowledgeBaseSyncDispatch.sync_source(self)
#   end
#
# By hand, in a console: KnowledgeBaseSyncDispatch.sync_source(KnowledgeBaseSource.find(12))
#
# A producer that must not lose a request even when the process dies right after its commit writes it inside its own
# transaction instead: SELECT kbsync.request_sync('{"type": "sync_source", ...}').
class KnowledgeBaseSyncDispatch
  FLAG = :pause_api2_knowledge_base_sync
  ENQUEUE_PATH = "/internal/knowledge_base_sync/enqueue"
  FALLBACKS_PATH = "/internal/knowledge_base_sync/fallbacks"
  ACCEPTED = 202
  TELL_EVERY_S = 10
  TELL_WITHIN_S = 1

  # The API did not accept a request. It may have got it all the same, which does no harm: ids are deterministic.
  class DeliveryError < StandardError
    attr_reader :request, :status, :reason

    def initialize(message, request:, status: nil, reason: nil)
      super(message)
      @request = request
      @status = status
      @reason = reason || (status.nil? ? "no_answer" : status >= 500 ? "server_error" : "refused")
    end
  end

  # What Flipper needs to know of an organization, without loading it. kbsync evaluates the same two properties.
  OrganizationActor = Struct.new(:id) do
    def flipper_id
      "Organization;#{id}"
    end

    def flipper_properties
      { "id" => id, "type" => "Organization" }
    end
  end

  TRANSPORT_ERRORS = [
    Timeout::Error, SystemCallError, SocketError, IOError, EncodingError, JSON::GeneratorError, OpenSSL::SSL::SSLError,
    Net::ProtocolError, Net::HTTPBadResponse, Net::HTTPHeaderSyntaxError
  ].freeze

  DEFAULT_FLAG = lambda do |organization_id|
    defined?(::Flipper) ? ::Flipper.enabled?(FLAG, OrganizationActor.new(organization_id)) : false
  end

  # A warning, not an error: the fallback has the work.
  DEFAULT_REPORT = lambda do |error|
    ::Sentry.capture_exception(error, level: :warning) if defined?(::Sentry)
  end

  class << self
    attr_writer :default

    def default
      @default || raise("KnowledgeBaseSyncDispatch.default is not set: see the head of #{__FILE__}")
    end

    %i[sync_source sync_document sync_document_chunks start_crawl crawl_url].each do |name|
      define_method(name) { |*arguments| default.public_send(name, *arguments) }
    end
  end

  # url        the API's root
  # fallback   ->(request, record): does the work another way; what it raises leaves the method
  # flag       ->(organization_id): whether the kill switch is on
  # report     ->(error): a DeliveryError
  # timeout_s  covers the whole call
  def initialize(url:, token:, fallback:, flag: DEFAULT_FLAG, report: DEFAULT_REPORT, timeout_s: 2, logger: nil)
    @endpoint = URI.parse(url.chomp("/") + ENQUEUE_PATH)
    @fallbacks_endpoint = URI.parse(url.chomp("/") + FALLBACKS_PATH)
    @untold = Hash.new(0)
    @told_at = -Float::INFINITY
    @telling = Mutex.new
    @token = token
    @fallback = fallback
    @flag = flag
    @report = report
    @timeout_s = timeout_s
    @logger = logger
  end

  # Each answers :accepted or :fell_back. A record needs `id` and `organization_id`, nothing else.

  def sync_source(source)
    dispatch(source, "type" => "sync_source", "source_id" => source.id)
  end

  def sync_document(document)
    dispatch(document, "type" => "sync_document", "document_id" => document.id)
  end

  def sync_document_chunks(document)
    dispatch(document, "type" => "document_chunks", "document_id" => document.id)
  end

  def start_crawl(crawl_task)
    dispatch(crawl_task, "type" => "start_crawl", "crawl_task_id" => crawl_task.id)
  end

  def crawl_url(crawl_task, url)
    dispatch(crawl_task, "type" => "crawl_url", "crawl_task_id" => crawl_task.id, "url" => url)
  end

  # Tells kbsync of the fallbacks that it does not know of yet, and waits a second at most. It is done by itself, beside the
  # caller's work, when the API has answered something; a short script may call it before it ends. Never raises.
  def tell_fallbacks
    untold = @telling.synchronize { @untold.tap { @untold = Hash.new(0) } }
    untold.each do |reason, count|
      status = begin
        body = JSON.generate("count" => count, "reason" => reason)
        Timeout.timeout(TELL_WITHIN_S) { status_of(@fallbacks_endpoint, body, TELL_WITHIN_S) }
      rescue StandardError
        nil # told with the next ones
      end
      @telling.synchronize { @untold[reason] += count } unless status == 204
    end
    nil
  end

  private

  def dispatch(record, request)
    request = request.merge("organization_id" => record.organization_id)
    begin
      unless paused?(request)
        post(request)
        tell_soon
        return :accepted
      end
    rescue DeliveryError => error
      logger.warn("knowledge base sync: #{error.message}; falling back")
      report_quietly(error)
      @telling.synchronize { @untold[error.reason] += 1 }
      tell_soon if error.status
    end
    @fallback.call(request, record)
    :fell_back
  end

  def paused?(request)
    @flag.call(request["organization_id"])
  rescue StandardError
    # Each flag store has errors of its own; the cause goes to Sentry with this one.
    raise DeliveryError.new("the kill switch can't be read", request: request, reason: "flag_unreadable")
  end

  def post(request)
    body = JSON.generate("requests" => [request])
    status = Timeout.timeout(@timeout_s) { status_of(@endpoint, body, @timeout_s) }
    return if status == ACCEPTED

    raise DeliveryError.new("#{where} answered #{status}", request: request, status: status)
  rescue Timeout::Error
    raise DeliveryError.new("#{where} did not answer within #{@timeout_s} s", request: request)
  rescue *TRANSPORT_ERRORS => error
    raise DeliveryError.new("#{where} can't be reached (#{error.class})", request: request)
  end

  # Net::HTTP follows no redirect, and that is meant: whoever answers behind one promised nothing, and would get the token.
  def status_of(endpoint, body, timeout_s)
    message = Net::HTTP::Post.new(endpoint)
    message["Authorization"] = "Bearer #{@token}"
    message["Content-Type"] = "application/json"
    message.body = body
    # nil: an internal call goes through no proxy of the environment.
    http = Net::HTTP.new(endpoint.hostname, endpoint.port, nil)
    http.use_ssl = endpoint.scheme == "https"
    http.max_retries = 0
    http.open_timeout = http.read_timeout = http.write_timeout = timeout_s
    http.start do |connection|
      # Leaving here leaves the body unread: the status says it all.
      connection.request(message) { |response| return response.code.to_i }
    end
  end

  # The API has just answered: what it was not told of goes out in a thread of its own, every ten seconds at most.
  def tell_soon
    now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    is_due = @telling.synchronize do
      next false if @untold.empty? || now - @told_at < TELL_EVERY_S

      @told_at = now
      true
    end
    Thread.new { tell_fallbacks } if is_due
  end

  def where
    "#{@endpoint.scheme}://#{@endpoint.host}:#{@endpoint.port}#{@endpoint.path}"
  end

  def report_quietly(error)
    @report.call(error)
  rescue StandardError => problem
    # A reporter that fails must not cost the fallback.
    logger.error("knowledge base sync: the delivery error could not be reported (#{problem.class})")
  end

  def logger
    @logger ||= defined?(::Rails) && ::Rails.respond_to?(:logger) && ::Rails.logger || Logger.new($stderr)
  end
end
